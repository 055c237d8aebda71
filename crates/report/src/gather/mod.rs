//! What a trace amounts to, in two passes over its file: the first finds how long it is, who is in it
//! and what became of each promise; the second, knowing that, what can be drawn.
//!
//! - `losses`: what is missing.
//! - `subjects`: whose jobs they are, numbered without gaps.
//! - `jobs`: events put together to jobs.
//! - `measured`: histograms.
//! - `constraints`: what time constraints were asked for.
//! - `late`: the latest jobs and their causes.
//! - `events_alone`: causes where nobody asked the kernel.
//! - `survey`: the first pass.
//! - `windows`: where jobs are drawn one by one.
//! - `lanes`: the second pass.
//!
//! Memory is bounded by the numbers in this folder, time by the length of the file.

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
