//! The loop that drives the policy: one thread runs all upcalls of its process.
//!
//! Between two iterations of the same handler lie two clock reads, a compare, stores and a
//! compare-and-exchange (lending the executor), and a look at the table of other processes'
//! releases. Between two handlers of the process there is no lock, no allocation and no system
//! call, unless a more urgent upcall of another process waits, or an owner's order came.
//!
//! - `executor`: the state that the loop owns, and its reports. `dispatching`: the steps between
//!   two turns, and best effort. `turns`: a turn.
//! - `orders`: the owner's requests, which add, change and remove upcalls. `shared`: state that the
//!   owner sees too.
//! - `watch`, `guard`: catch a handler that does not return. `watchdog`: decides whether it is at
//!   fault. `containment`: lowers it, goes on without it, and tells the owner of every end.

mod containment;
mod dispatching;
mod executor;
mod guard;
mod orders;
mod shared;
#[cfg(test)]
mod tests;
mod turns;
mod watch;
mod watchdog;

pub(crate) use containment::drop_quietly;
pub(crate) use executor::{Answer, Executor, Order, Queues, Reply};
pub(crate) use guard::start as start_guard;
pub(crate) use shared::{End, Finish, Out, Shared};
pub(crate) use turns::begin;
