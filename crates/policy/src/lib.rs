//! Who runs next, and who has run enough: pure state machines that take `now`.
//!
//! A policy reads no clock, makes no system call, and allocates only when it is made. Its driver
//! (the simulator in virtual time, the runtime on Linux) tells it the time and does what it
//! decides; every decision is a `#[must_use]` value.
//!
//! - [`rmdp`]: real-time upcalls, rate monotonic with delayed preemption.
//! - [`virtual_time`]: best-effort upcalls, which share what those leave over.
//! - [`jobs`]: the same rule for jobs whose releases come from outside, in the order of each policy.
//! - [`timetable`]: reservations with a place in a static cyclic timetable; [`table_dispatcher`]: the same while
//!   reservations come and go, with one-shot work in the free time.
//! - [`adaptive`]: how much to reserve, from how the work goes.
//! - [`egress`]: which message of a channel leaves next, and when.
//! - [`ingress`]: whose message is taken in next, and which ones keep their senders' word.
//! - [`police`]: whether a sender keeps its word, PDU by PDU.
//! - [`overuse`]: whether a thread uses more than it was granted, whatever its rhythm.
//! - [`queues`], [`ready`], [`releases`]: the data structures under them.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod adaptive;
mod edf_vd;
pub mod egress;
pub mod ingress;
pub mod jobs;
mod numbers;
pub mod overuse;
pub mod police;
pub mod queues;
pub mod ready;
pub mod releases;
pub mod rmdp;
pub mod table_dispatcher;
pub mod timetable;
pub mod virtual_time;
