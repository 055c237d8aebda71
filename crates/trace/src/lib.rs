//! What happened: one event schema for simulated and live runs, and what follows from it.
//!
//! - `event`: the events and where they are sent.
//! - `subject`: whose jobs they are, and what was promised to them.
//! - `slots`: what each period of a reservation was given.
//! - `constraint`: what time constraints were answered and given.
//! - `file`: how a trace is kept.
//! - `kernel`: what the kernel did meanwhile.
//! - `check`: whether each promise was kept.
//! - `cause`: why a job was late.
//! - `fit`: what a thread needs, seen from outside.
//! - `times`: histograms.
//! - `summary`: jobs, late jobs, wake-up latencies and response times of a run.
//!
//! Pure: events carry their instants, nothing here reads a clock. (`no_std` keeps clocks and
//! threads out of *our* code; the histogram library itself uses `std`.)
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
pub mod subject;
pub mod summary;
pub mod times;

pub use event::{Event, Kind, Sink};
pub use subject::{Promise, Subject, SubjectKind};
pub use summary::{Summary, TaskSummary};
pub use times::Times;
