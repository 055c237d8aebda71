//! Scheduling and policing policies: pure state machines that take `now`.
//!
//! A policy reads no clock, makes no system call, and allocates only when it is made. Its driver
//! (the simulator in virtual time, the runtime on Linux) passes it the time and carries out its
//! decisions; every decision is a `#[must_use]` value.
//!
//! - [`rmdp`]: real-time upcalls, rate monotonic with delayed preemption.
//! - [`virtual_time`]: best-effort upcalls, which share the remaining time.
//! - [`jobs`]: delayed preemption for jobs with external releases, in the order of each policy.
//! - [`timetable`]: reservations with a place in a static cyclic timetable; [`table_dispatcher`]:
//!   the same with changing reservations and with one-shot work in the free time.
//! - [`deferrable_server`]: a reservation whose holder runs whenever it wakes, within a budget.
//! - [`adaptive`]: adapts the size of a reservation to the measured work.
//! - [`egress`]: the next message to send, and its time.
//! - [`ingress`]: the next channel to read, and policing of its messages.
//! - [`police`]: policing of a sender, PDU by PDU.
//! - [`overuse`]: detects a thread that uses more than its grant, at any period of its work.
//! - [`queues`], [`ready`], [`releases`]: the data structures under them.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod adaptive;
pub mod deferrable_server;
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
