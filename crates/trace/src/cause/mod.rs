//! Explains why a job was late: where the time between its release and its completion went, and
//! which part of it made the job late.
//!
//! - `spent`: stretches of time, and the kinds of their use.
//! - `observer`: from the kernel's records to the stretches of the threads it watches.
//! - `thread_jobs`: the jobs of a thread that declares none.
//! - `from_events`: the same stretches from a trace alone, without the kernel's records.
//! - `shares`: from stretches and a promise to shares that add up to the tardiness.

mod from_events;
mod observer;
mod shares;
mod spent;
#[cfg(test)]
mod tests;
mod thread_jobs;

pub use from_events::FromEvents;
pub use observer::{Edge, Lost, Observer};
pub use shares::{LateJob, Share, Verdict, judge};
pub use spent::{Spent, Stretch, Throttler};
pub use thread_jobs::ThreadJobs;
