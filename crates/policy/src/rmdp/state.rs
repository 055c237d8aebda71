//! The state of one upcall in the policy.

use punctual_model::{Backlog, Duration, Instant, JobId, Overrun, Rank, Upcall};
use thiserror::Error;

use super::decisions::{Fate, Missed};

/// An absence of this length is caught up, at any period.
pub(super) const CATCH_UP: Duration = Duration::from_millis(100);

/// This number of periods is caught up, at any length.
pub(super) const CATCH_UP_PERIODS: u64 = 4;

#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) task: u32,
    pub(super) period: Duration,
    pub(super) batch: u32,
    pub(super) quantum: u32,
    pub(super) overrun: Overrun,
    /// Jobs released and not complete; the oldest of them is `index`.
    pub(super) pending: u64,
    pub(super) index: u64,
    /// The release of job `index`, if any is pending.
    pub(super) release: Instant,
    /// PDUs of job `index` already processed.
    pub(super) done: u32,
    /// The number of pending jobs, from the oldest on, that were reported as late.
    pub(super) reported: u64,
    pub(super) demoted: bool,
    /// The next release on an absolute time line, so that the phase is independent of single jobs.
    /// For a suspended upcall, the release that it would have had.
    pub(super) grid: Instant,
    pub(super) suspended: bool,
    /// Indices dropped between the oldest job, which had begun, and the next.
    pub(super) gap: u64,
    /// Orders equal periods; the lower goes first.
    pub(super) order: u64,
    pub(super) rank: Rank,
}

impl State {
    pub(super) fn new(task: u32, upcall: &Upcall, first_release: Instant) -> Self {
        Self {
            task,
            period: upcall.period(),
            batch: upcall.batch().get(),
            quantum: upcall.quantum().get(),
            overrun: upcall.overrun(),
            pending: 0,
            index: 0,
            release: first_release,
            done: 0,
            reported: 0,
            demoted: false,
            grid: first_release,
            suspended: false,
            gap: 0,
            order: 0,
            rank: Rank(0),
        }
    }

    pub(super) fn job(&self) -> JobId {
        JobId { task: self.task, index: self.index }
    }

    /// Returns the next release for the run queue.
    pub(super) fn next(&self) -> Instant {
        if self.suspended { Instant::MAX } else { self.grid }
    }

    /// Returns the next release; `None` if the upcall is suspended.
    pub(super) fn next_if_any(&self) -> Option<Instant> {
        (!self.suspended).then_some(self.grid)
    }

    /// Records all releases at or before `now`; the next one must be due by then. A long absence
    /// takes one division, not a loop over the missed periods.
    pub(super) fn release_until(&mut self, now: Instant) {
        if self.pending == 0 {
            self.release = self.grid;
        }
        let released = (now - self.grid) / self.period + 1;
        self.pending += released;
        let passed = self.period.checked_mul(released).unwrap_or(Duration::MAX);
        self.grid = self.grid.saturating_add(passed);
    }

    /// Returns the number of jobs whose absolute deadline, the release after theirs, has passed.
    pub(super) fn overdue(&self) -> u64 {
        self.pending.saturating_sub(1)
    }

    /// Returns the number of jobs beyond [`most_pending`]. They are dropped once the oldest is not
    /// one that has begun.
    fn surplus(&self) -> u64 {
        self.pending.saturating_sub(most_pending(self.period))
    }

    /// Returns true if there are late jobs to report now. Behind a job that has begun, jobs that
    /// will be dropped (all under `Skip` and `Abort`) are reported only after it ends, so that
    /// indices are dropped from the oldest on.
    pub(super) fn has_unreported(&self) -> bool {
        match self.overrun {
            _ if self.surplus() > 0 => self.done == 0 || self.reported == 0,
            Overrun::Skip | Overrun::Abort if self.done > 0 => {
                self.overdue() > 0 && self.reported == 0
            }
            Overrun::Skip | Overrun::Abort => self.overdue() > 0,
            _ => self.overdue() > self.reported,
        }
    }

    /// Returns true if the oldest job, which ends at `now`, was late and not yet reported.
    pub(super) fn is_late_unreported(&self, now: Instant) -> bool {
        // If more than one is pending, a release has reached its deadline; otherwise the grid is
        // its deadline.
        self.reported == 0 && (self.overdue() > 0 || now > self.grid)
    }

    /// Returns the release of the `nth` pending job, from 0.
    fn release_of(&self, nth: u64) -> Instant {
        match nth {
            0 => self.release,
            // The period may have changed after the oldest job, and jobs may have been dropped
            // there.
            _ => self.grid - self.period * (self.pending - nth),
        }
    }

    /// Removes the `jobs` oldest, however they ended.
    pub(super) fn drop_oldest(&mut self, jobs: u64) {
        if jobs == 0 {
            return;
        }
        self.release = if jobs == self.pending { self.grid } else { self.release_of(jobs) };
        self.done = 0;
        self.index += jobs + core::mem::take(&mut self.gap);
        self.pending -= jobs;
        self.reported = self.reported.saturating_sub(jobs);
    }

    /// Reports the late jobs among the `limit` oldest, with their fate. There must be some to
    /// report.
    pub(super) fn report(&mut self, limit: u64) -> Missed {
        let (surplus, begun) = (self.surplus(), self.done > 0);
        let limit = if surplus > 0 { limit.min(1) } else { limit };
        let overdue = self.overdue().min(limit);
        let (first, jobs, fate) = match self.overrun {
            Overrun::Skip if begun => (0, 1, Fate::Late),
            Overrun::Abort if begun => (0, 1, Fate::Aborted),
            Overrun::Skip | Overrun::Abort => (0, self.overdue(), Fate::Skipped),
            _ if surplus > 0 && !begun => (0, surplus, Fate::Skipped),
            Overrun::CatchUp | Overrun::Notify | Overrun::Demote => {
                (self.reported, overdue - self.reported, Fate::Late)
            }
        };
        let gap = if first > 0 { self.gap } else { 0 };
        let missed = Missed {
            oldest: JobId { task: self.task, index: self.index + gap + first },
            release: self.release_of(first),
            jobs,
            fate,
            urgent: self.overrun == Overrun::Notify,
        };
        match fate {
            Fate::Late => self.reported = first + jobs,
            Fate::Skipped | Fate::Aborted => self.drop_oldest(jobs),
        }
        self.demoted |= self.overrun == Overrun::Demote;
        missed
    }

    /// Drops and returns all pending jobs but one: the one that has begun, or else the newest.
    pub(super) fn drop_all_but_one(&mut self) -> Option<Backlog> {
        let backlog = self.backlog()?;
        let jobs = Some(backlog.jobs - 1).filter(|jobs| *jobs > 0)?;
        self.reported = 0;
        self.demoted = false;
        if self.done == 0 {
            self.drop_oldest(jobs);
            return Some(Backlog { jobs, ..backlog });
        }
        let oldest = JobId { task: self.task, index: self.index + 1 + self.gap };
        let release = self.release_of(1);
        self.pending = 1;
        self.gap += jobs;
        Some(Backlog { oldest, release, jobs, begun: false, ..backlog })
    }

    /// Returns the jobs that are released and not complete, if there are any.
    pub(super) fn backlog(&self) -> Option<Backlog> {
        (self.pending > 0).then_some(Backlog {
            oldest: self.job(),
            release: self.release,
            period: self.period,
            jobs: self.pending,
            begun: self.done > 0,
        })
    }

    /// Drops all pending jobs.
    pub(super) fn forget(&mut self) {
        self.drop_oldest(self.pending);
        self.reported = 0;
        self.demoted = false;
    }
}

/// The reason that an upcall was not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CreateError {
    /// All places are taken; the policy allocates only when it is made.
    #[error("there is room for {capacity} upcalls and all of it is taken; close one first")]
    Full {
        /// The number of places.
        capacity: usize,
    },
    /// The number is taken.
    #[error("there is an upcall {task} already; close it first or take another number")]
    Taken {
        /// The number given.
        task: u32,
    },
}

/// The error for a number that no upcall has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("there is no upcall {task}: it was closed or never created")]
pub struct NoSuchUpcall {
    /// The number given.
    pub task: u32,
}

/// Returns the first release at or after `from`, of releases at `first` and each `period` after it.
/// An upcall resumes there, in its original phase.
///
/// ```
/// use punctual_model::{Duration, Instant};
/// use punctual_policy::rmdp::first_from;
///
/// let ms = |n: u64| Instant::from_nanos(n * 1_000_000);
/// let period = Duration::from_millis(10);
/// assert_eq!(first_from(ms(3), period, ms(2)), ms(3));
/// assert_eq!(first_from(ms(3), period, ms(40)), ms(43));
/// ```
pub fn first_from(first: Instant, period: Duration, from: Instant) -> Instant {
    let periods = from.saturating_since(first).as_nanos().div_ceil(period.as_nanos());
    first.saturating_add(period.checked_mul(periods).unwrap_or(Duration::MAX))
}

/// Returns the first release of an upcall that is created at `now`: the `requested` one, if that is
/// ahead or less than a period ago; otherwise the next instant in its phase.
///
/// So "from now on" means at once, however long the request took, and a request for an instant long
/// past sets the phase without jobs that were over before the creation. A job whose release has
/// passed has less than its period left, which admission does not cover.
///
/// ```
/// use punctual_model::{Duration, Instant};
/// use punctual_policy::rmdp::first_release;
///
/// let ms = |n: u64| Instant::from_nanos(n * 1_000_000);
/// let period = Duration::from_millis(10);
/// assert_eq!(first_release(ms(3), period, ms(2)), ms(3));
/// assert_eq!(first_release(ms(3), period, ms(12)), ms(3), "late, and its deadline is ahead");
/// assert_eq!(first_release(ms(3), period, ms(40)), ms(43));
/// ```
pub fn first_release(requested: Instant, period: Duration, now: Instant) -> Instant {
    let passed = now.saturating_since(requested);
    if passed < period { requested } else { first_from(requested, period, now) }
}

/// Returns the most jobs of an upcall with this period that may wait, including the running one:
/// those of four periods or of 100 ms, whichever are more. If there are more, the oldest are
/// [`Fate::Skipped`]; if one has begun, it continues, and those behind it are skipped when it ends.
/// So an upcall that returns from a long absence keeps the CPU from other upcalls for no more than
/// these.
///
/// ```
/// use punctual_model::Duration;
/// use punctual_policy::rmdp::most_pending;
///
/// assert_eq!(most_pending(Duration::from_millis(7)), 14);
/// assert_eq!(most_pending(Duration::from_millis(40)), 4);
/// ```
pub fn most_pending(period: Duration) -> u64 {
    (CATCH_UP / period).max(CATCH_UP_PERIODS)
}
