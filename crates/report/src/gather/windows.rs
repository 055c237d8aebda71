//! Chooses the times in which jobs are drawn one by one: all of a short trace, otherwise its
//! beginning and around the latest jobs.

use punctual_model::{Duration, Instant};

use super::jobs::Job;
use super::survey::Survey;

/// The number of jobs up to which all are drawn one by one.
const MOST_JOBS: u64 = 8_000;
/// The number of windows, if not all jobs are drawn.
const MOST_WINDOWS: usize = 24;
/// The number of jobs of one window in that case.
const MOST_IN_ONE: usize = 400;
/// The number of stretches of all drawn jobs together.
const MOST_STRETCHES: usize = 20_000;

/// A time in which every job is drawn.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) from: Instant,
    pub(crate) to: Instant,
    /// The jobs that overlap it, in the order in which they ended.
    pub(crate) jobs: Vec<Job>,
    most: usize,
    is_full: bool,
}

/// All windows, in the order of their beginnings, without overlaps.
#[derive(Debug)]
pub(crate) struct Windows {
    pub(crate) all: Vec<Window>,
    /// True if every job of the trace is drawn.
    pub(crate) is_whole: bool,
    stretches: usize,
}

impl Windows {
    pub(crate) fn of(survey: &Survey) -> Self {
        let window = |from, to, most| Window { from, to, jobs: Vec::new(), most, is_full: false };
        let is_whole = survey.jobs <= MOST_JOBS;
        if is_whole {
            let all = vec![window(Instant::ZERO, Instant::MAX, MOST_JOBS as usize + 1)];
            return Self { all, is_whole, stretches: MOST_STRETCHES };
        }
        // The average time of a hundred jobs.
        let hundred = u128::from(survey.span()) * 100 / u128::from(survey.jobs);
        let hundred = Duration::from_nanos(u64::try_from(hundred).unwrap_or(u64::MAX).max(1));
        let mut ranges = vec![(survey.from(), survey.from().saturating_add(hundred * 3))];
        for late in survey.late.latest() {
            if ranges.len() == MOST_WINDOWS {
                break;
            }
            let margin = Duration::from_nanos(hundred.as_nanos() / 2);
            let from = late.release.as_nanos().saturating_sub(margin.as_nanos());
            let range = (Instant::from_nanos(from), late.end.saturating_add(margin));
            if ranges.iter().all(|other| range.0 > other.1 || range.1 < other.0) {
                ranges.push(range);
            }
        }
        ranges.sort();
        let all = ranges.into_iter().map(|(from, to)| window(from, to, MOST_IN_ONE)).collect();
        Self { all, is_whole, stretches: MOST_STRETCHES }
    }

    /// Adds a job to each window that it overlaps.
    pub(crate) fn take(&mut self, job: &Job) {
        for window in &mut self.all {
            if window.is_full || job.end < window.from || job.release > window.to {
                continue;
            }
            let mut job = job.clone();
            if job.ran.len() > self.stretches {
                job.ran = job
                    .ran
                    .first()
                    .zip(job.ran.last())
                    .map(|(a, b)| (a.0, b.1))
                    .into_iter()
                    .collect();
            }
            self.stretches = self.stretches.saturating_sub(job.ran.len());
            // The first job that does not fit ends the window.
            if window.jobs.len() >= window.most {
                window.is_full = true;
                window.to = job.release.min(window.to).max(window.from);
            } else {
                window.jobs.push(job);
            }
        }
    }

    /// Returns the number of drawn jobs.
    pub(crate) fn jobs(&self) -> usize {
        self.all.iter().map(|window| window.jobs.len()).sum()
    }
}
