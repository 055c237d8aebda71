//! Schedulability analysis and admission: does a contract fit on a host?
//!
//! [`admit`] returns a [`Grant`] with a proven bound for every task, or a [`Refusal`] with the
//! numbers and a counter-offer. Everything here is integer arithmetic, so no contract is ever
//! admitted by a rounding error.
//!
//! Reading order: [`load`] (the work of one CPU), [`utilisation`] (cheap tests), [`fixed_priority`]
//! and [`edf`] (the tests that decide), then [`System`], which admits entries one at a time on a
//! whole host. The broker and a process's upcalls are admitted by a `System`, and [`incremental`]
//! makes its answers cheap. [`admit`] enters a contract into one (`examination`).
//!
//! Beside them are [`channel`], for messages over a sender's processor and link, and [`supply`],
//! for reservations, the work that fits inside them, and the timetables that keep them.
//!
//! # Conventions
//! - All numbers are nanoseconds of one CPU at full speed, so work and time are comparable. The
//!   types of `punctual-model` keep the two apart at the API; inside the formulas both are `u64`.
//! - Tasks are in priority order, the most urgent first.
//! - Time is continuous: a quantum that began just before a release delays it by its full length.
//!   Tools for discrete time subtract one tick there; [`Granularity`] does so on request.
//! - Every loop is bounded by [`Steps`]. A question that they do not decide is answered with a
//!   refusal, never with an admission.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod admit;
pub mod breakdown;
pub mod channel;
mod counter_offer;
pub mod edf;
mod edf_vd;
mod entry;
mod examination;
pub mod fifo;
pub mod fixed_priority;
mod in_force;
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
mod schedulability;
mod sensitivity;
mod steps;
pub mod supply;
mod switching;
mod system;
pub mod utilisation;
mod verdict;

pub use admit::{admit, admit_within};
pub use entry::EntryKind;
pub use in_force::InForce;
pub use load::{CpuLoad, Granularity};
pub use offer::{Axis, Offer, Offers};
pub use sensitivity::{Sensitivity, sensitivity};
pub use steps::{OutOfSteps, Steps};
pub use system::{BackEnd, Carrier, CarrierLoad, Exchange, Joining, Request, System, UpcallOrder};
pub use verdict::{
    EntryBound, Grant, GrantedChannel, GrantedReservation, GrantedTask, Refusal, Resource,
    Shortfall, TestReport,
};
