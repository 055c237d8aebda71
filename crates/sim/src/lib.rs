//! Runs the policies of `punctual-policy` in virtual time.
//!
//! A seed replays a run: nothing here reads a clock or draws a number except from the given
//! generators.
//!
//! - [`tasks`]: tasks of any arrival pattern on one processor, by fixed priority or earliest
//!   deadline.
//! - [`arrivals`]: when each job is released, and for how long it runs.
//! - [`overheads`]: the cost of switches.
//! - [`processor`]: when the tasks have the processor: always, or as a reservation says.
//! - [`faults`]: broken promises: overruns, extra releases, late timers.
//! - [`witness`]: a schedule in which a refused system misses.
//! - [`egress`]: the egress scheduler of a channel server, with its thread and its link.
//! - [`streams`]: frames that an upcall processes and a channel of the egress scheduler sends.
//! - [`upcalls`]: real handlers as real-time upcalls, whose processor time comes from a cost model.
//! - [`cbs`]: a reservation as the kernel's constant-bandwidth server enforces it.
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
