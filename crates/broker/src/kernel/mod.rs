//! What the kernel is told, and asked, on behalf of others.
//!
//! - [`peer`]: who is at the other end of a socket, and whether that is still the same process.
//! - [`persons`]: which ids are one person's.
//! - [`give`]: putting a grant in force. [`take`]: taking it back. [`limits`]: of other processes.
//! - [`usage`]: what a thread has used.
//! - [`sweep`]: real-time threads that nobody was granted.
//! - [`privileges`], [`seccomp`]: what each part needs, and getting rid of everything else.
//!
//! Whatever is done to a thread is done by its id, and an id can pass to another thread when its
//! owner ends. So each time the thread's start is compared before *and after*: if it has changed in
//! between, what was done is undone.

pub mod give;
pub mod limits;
pub mod peer;
pub mod persons;
pub mod privileges;
pub mod seccomp;
pub mod sweep;
pub mod take;
pub mod usage;
