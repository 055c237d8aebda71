//! Defines one event schema for simulated and live runs, and what is computed from it.
//!
//! - `event`: the events and their receivers; the owners of jobs, and what was promised to them.
//! - `slots`: what each period of a reservation was given.
//! - `constraint`: the answers to time constraints, and what they were given.
//! - `file`: the trace file.
//! - `kernel`: what the kernel did meanwhile.
//! - `check`: whether each promise was kept.
//! - `cause`: why a job was late.
//! - `fit`: what a thread needs, as observed from outside.
//! - `times`: histograms.
//! - `summary`: jobs, late jobs, wake-up latencies and response times of a run.
//!
//! The crate is pure: events carry their instants, and nothing reads a clock. (`no_std` keeps
//! clocks and threads out of *our* code; the histogram library itself uses `std`.)
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod cause;
pub mod check;
pub mod constraint;
pub mod event;
pub mod file;
pub mod fit;
pub mod kernel;
pub mod slots;
pub mod summary;
pub mod times;

pub use event::{Event, Kind, Promise, Sink, Subject, SubjectKind};
pub use summary::{Summary, TaskSummary};
pub use times::Times;
