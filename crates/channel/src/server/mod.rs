//! The communication server: threads that carry messages, controlled by the program that admits
//! channels.
//!
//! - [`sender`]: from rings to the link, each message by its deadline.
//! - [`receiver`]: from sockets to rings, guaranteed channels first.
//! - [`orders`]: the queues between the control side and the carrying threads.
//! - [`ringer`]: threads that wake clients.
//! - [`events`]: events of each message, for a trace.

pub mod events;
pub mod orders;
pub mod receiver;
pub mod ringer;
pub mod sender;
