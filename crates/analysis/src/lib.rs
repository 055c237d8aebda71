//! Schedulability analysis and admission: does a contract fit on a host?
//!
//! [`admit`] answers with a [`Grant`] that carries a proven bound for every task, or with a
//! [`Refusal`] that carries the numbers and a counter-offer. Everything here is pure integer
//! arithmetic: no float decides, so nothing is ever admitted by a rounding.
//!
//! Reading order: [`load`] (what one CPU has to do), [`utilisation`] (cheap tests),
//! [`fixed_priority`] and [`edf`] (the tests that decide), then [`System`], which answers for a whole host, one entry at a
//! time: the broker and the upcalls of a process are admitted by it. [`incremental`] is what makes that cheap. [`admit`]
//! enters a contract into one (`examination`).
//!
//! Beside them, [`channel`]: messages over a sender's processor and link; and [`supply`]:
//! reservations, what fits inside them, and timetables that keep them.
//!
//! # Conventions, said once
//! - All numbers are nanoseconds of one CPU at full speed, so work and time are comparable. The
//!   types of `punctual-model` keep the two apart at the API; inside the formulas both are `u64`.
//! - Tasks stand in priority order, the most urgent first.
//! - Time is continuous: a quantum that began just before a release delays it by all of itself.
//!   Tools for discrete time subtract one tick there; [`Granularity`] does it on request.
//! - Every loop is bounded by [`Steps`]. What is not decided within them is refused, never
//!   admitted.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod admit;
pub mod breakdown;
pub mod channel;
mod counter_offer;
pub mod edf;
mod edf_vd;
mod examination;
pub mod fifo;
pub mod fixed_priority;
pub mod incremental;
mod judge;
pub mod load;
pub mod mapping;
mod offer;
pub mod order;
mod parameters;
mod policies;
pub mod ratio;
pub mod reservation;
pub mod sched_deadline;
mod sensitivity;
mod steps;
pub mod supply;
mod switching;
mod system;
pub mod utilisation;
mod verdict;

pub use admit::{admit, admit_within};
pub use load::{CpuLoad, Granularity};
pub use offer::{Axis, EntryKind, Offer, Offers};
pub use sensitivity::{Sensitivity, sensitivity};
pub use steps::{OutOfSteps, Steps};
pub use system::{BackEnd, Carrier, CarrierLoad, Joining, Request, System, UpcallOrder};
pub use verdict::{
    EntryBound, Grant, GrantedChannel, GrantedReservation, GrantedTask, Refusal, Resource,
    Shortfall, TestReport,
};
