//! What the system tests share: random systems, and the check that admission keeps its word.
//!
//! The tests themselves are in `tests/`; they are here and not in a crate below because they hold
//! crates that may not know each other against one another.

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
