//! Code that the benchmarks share.
//!
//! - [`c_peer`]: programs in C that measure themselves.
//! - [`pairs`]: two operations measured in turn, and the ratio of the two.
//! - [`systems`]: random task systems.
#![forbid(unsafe_code)]

pub mod c_peer;
pub mod pairs;
pub mod systems;
