//! The communication server: threads that carry messages, told what to do by whoever admits channels.
//!
//! - [`sender`]: from rings to the link, each message by its deadline.
//! - [`receiver`]: from sockets to rings, guaranteed channels first.
//! - [`orders`]: how the side that decides and the threads that carry speak.
//! - [`ringer`]: who wakes clients.
//! - [`events`]: what happens to each message, for a trace.

pub mod events;
pub mod orders;
pub mod receiver;
pub mod ringer;
pub mod sender;
