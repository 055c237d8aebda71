//! The policies of `punctual-policy`, turned in virtual time.
//!
//! One seed replays a run: nothing here reads a clock or draws a number that it was not given.
//!
//! - [`tasks`]: tasks of any arrival pattern on one CPU, by fixed priority or earliest deadline.
//! - [`arrivals`]: who is released when, and for how long it runs.
//! - [`upcalls`]: real handlers as real-time upcalls, their processor time charged by a cost model.
//! - [`cpu`]: the virtual CPU under them: a whole one, a reserved part, or a fair share.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod arrivals;
pub mod cpu;
pub mod tasks;
pub mod upcalls;
