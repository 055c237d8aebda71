//! Code that the system tests share: random systems, and the check that admission keeps its
//! promise.
//!
//! The tests themselves are in `tests/`. They are in this crate and not in one below because they
//! compare crates that must not depend on each other.

pub mod draw;
pub mod held;
pub mod hostile;
pub mod live;
pub mod network;
pub mod promise;
pub mod seeds;
pub mod soak;
pub mod stalls;
pub mod strict;
pub mod together;
pub mod upcalls;
