//! Gathers the contents of a trace in two passes over its file. The first finds its length, its
//! subjects and the verdict on each promise. The second then finds what can be drawn.
//!
//! - `jobs`: assembles events into jobs.
//! - `measured`: histograms, and requests for time constraints.
//! - `late`: the latest jobs and their causes, also without the kernel's records.
//! - `survey`: the first pass, with the owners of jobs and what is missing.
//! - `lanes`: the second pass, with the times in which jobs are drawn one by one.
//!
//! Memory is bounded by the constants in this folder, time by the length of the file.

mod jobs;
mod lanes;
mod late;
mod measured;
mod survey;

pub(crate) use jobs::{Fate, Job};
pub(crate) use lanes::{COLUMNS, Drawn, Lane};
pub(crate) use late::Late;
pub(crate) use measured::{Measured, PER_DECADE, Times, bucket_start};
pub(crate) use survey::{Survey, counted};
