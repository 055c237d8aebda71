//! Why was a job late? Where the time between its release and its completion went, and which of it
//! made it late.
//!
//! - `spent`: the words: what a stretch of time was spent on.
//! - `observer`: from the kernel's records to the stretches of the threads it watches.
//! - `thread_jobs`: what the jobs of a thread are that declares none.
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
pub use observer::{Edge, Observer, Stretch};
pub use shares::{LateJob, Share, Verdict, judge};
pub use spent::{Spent, Throttler};
pub use thread_jobs::ThreadJobs;
