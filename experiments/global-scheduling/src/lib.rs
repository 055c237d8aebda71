//! Global scheduling: several processors and one queue; jobs run wherever there is room, and
//! migrate.
//!
//! Punctual admits and runs nothing this way: admission places each task on a CPU, where it stays.
//! Global scheduling is here to be studied and compared with partitioning.
//!
//! - [`policy`]: selects the task for each processor, by fixed priority or by earliest deadline.
//! - [`simulation`]: runs tasks under it in virtual time.
//! - [`bounds`]: proves response times.
//! - [`study`]: does all three for one contract.
#![forbid(unsafe_code)]

pub mod bounds;
pub mod policy;
pub mod simulation;
pub mod study;
