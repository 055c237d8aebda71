//! Gathers the contents of a trace in two passes over its file. The first finds its length, its
//! subjects and the verdict on each promise. The second then finds what can be drawn.
//!
//! - `losses`: what is missing.
//! - `subjects`: the owners of jobs, numbered without gaps.
//! - `jobs`: assembles events into jobs.
//! - `measured`: histograms.
//! - `constraints`: requests for time constraints.
//! - `late`: the latest jobs and their causes.
//! - `events_alone`: causes without the kernel's records.
//! - `survey`: the first pass.
//! - `windows`: the times in which jobs are drawn one by one.
//! - `lanes`: the second pass.
//!
//! Memory is bounded by the constants in this folder, time by the length of the file.

mod constraints;
mod events_alone;
mod jobs;
mod lanes;
mod late;
mod losses;
mod measured;
mod subjects;
mod survey;
mod windows;

pub(crate) use jobs::{Fate, Job};
pub(crate) use lanes::{COLUMNS, Drawn, Lane};
pub(crate) use late::Late;
pub(crate) use losses::counted;
pub(crate) use measured::{Measured, PER_DECADE, Times, bucket_start};
pub(crate) use survey::Survey;
