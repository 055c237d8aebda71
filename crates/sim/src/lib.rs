//! The policies of `punctual-policy`, turned in virtual time.
//!
//! One seed replays a run: nothing here reads a clock or draws a number that it was not given.
//!
//! - [`tasks`]: tasks of any arrival pattern on one processor, by fixed priority or earliest
//!   deadline.
//! - [`arrivals`]: who is released when, and for how long it runs.
//! - [`overheads`]: what switches cost.
//! - [`processor`]: when the tasks have the processor: always, or as a reservation says.
//! - [`faults`]: promises that are broken: overruns, extra releases, late timers.
//! - [`witness`]: a schedule in which a refused system misses.
//! - [`egress`]: the egress scheduler of a channel server, with its thread and its link.
//! - [`streams`]: frames that an upcall of tasks works off and a channel of the egress scheduler sends.
//! - [`upcalls`]: real handlers as real-time upcalls, their processor time charged by a cost model.
//! - [`cbs`]: a reservation as the kernel's constant bandwidth server keeps it.
//! - [`cpu`]: the virtual CPU under them: a whole one, a reserved part, or a fair share.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod arrivals;
pub mod cbs;
pub mod cpu;
pub mod egress;
pub mod faults;
pub mod overheads;
pub mod processor;
pub mod streams;
pub mod tasks;
pub mod upcalls;
pub mod witness;
