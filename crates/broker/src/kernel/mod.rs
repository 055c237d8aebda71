//! System calls on behalf of clients, and on their threads.
//!
//! - [`peer`]: the process at the other end of a socket, and whether it is still the same process.
//! - [`persons`]: the user ids that belong to one person.
//! - [`give`]: putting a grant in force. [`take`]: taking it back. [`class`], [`limits`]: the class of
//!   a thread and the limits of a process, which both change. [`GiveError`]: why neither was given.
//! - [`usage`]: the processor time that a thread has used.
//! - [`sweep`]: real-time threads without a grant.
//! - [`privileges`], [`seccomp`]: the privileges that each part needs, and dropping all others.
//!
//! A thread is addressed by its id, and an id can pass to another thread when the first one ends.
//! So the thread's start time is compared before *and after* each action: if it has changed in
//! between, the action is undone.

pub mod class;
mod error;
pub mod give;
pub mod limits;
pub mod peer;
pub mod persons;
pub mod privileges;
pub mod seccomp;
pub mod sweep;
pub mod take;
pub mod usage;

pub use error::GiveError;
