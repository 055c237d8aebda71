//! Global scheduling: several processors and one queue, jobs run wherever there is room and move.
//!
//! Nothing that Punctual admits or runs is scheduled so: admission places each task on a CPU, where it stays. It is here
//! to be studied, and to hold partitions against it.
//!
//! - [`policy`]: who runs on which processor, by fixed priority or by earliest deadline.
//! - [`simulation`]: tasks under it in virtual time.
//! - [`bounds`]: what is proven of response times.
//! - [`study`]: all three for one contract.
#![forbid(unsafe_code)]

pub mod bounds;
pub mod policy;
pub mod simulation;
pub mod study;
