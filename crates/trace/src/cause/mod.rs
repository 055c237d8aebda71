//! Explains why a job was late: where the time between its release and its completion went, and
//! which part of it made the job late.
//!
//! - `spent`: stretches of time, and the kinds of their use.
//! - `observer`: from the kernel's records to the stretches of the threads it watches.
//! - `wait`, `release`: the wait from which a thread is released, inferred from its sleeps.
//! - `inferred_jobs`: the jobs of a thread that declares none, by its inferred releases.
//! - `thread_jobs`: the same at once, if every wake-up in one system call is a release.
//! - `from_events`: the same stretches from a trace alone, without the kernel's records.
//! - `shares`: from stretches and a promise to shares that add up to the tardiness.

mod from_events;
mod inferred_jobs;
#[cfg(test)]
mod inferred_tests;
mod observer;
mod release;
mod shares;
mod spent;
#[cfg(test)]
mod tests;
mod thread_jobs;
mod wait;

pub use from_events::FromEvents;
pub use inferred_jobs::{Asked, InferredJobs, Taken, Told};
pub use observer::{Edge, Lost, Observer};
pub use release::{Release, Rhythm};
pub use shares::{LateJob, Share, Verdict, judge};
pub use spent::{Spent, Stretch, Throttler};
pub use thread_jobs::ThreadJobs;
pub use wait::Wait;
