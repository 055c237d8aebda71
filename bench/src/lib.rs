//! What the benchmarks share.
//!
//! - [`pairs`]: two things measured in turn, and the ratio of the two.
//! - [`systems`]: random task systems.
#![forbid(unsafe_code)]

pub mod pairs;
pub mod systems;
