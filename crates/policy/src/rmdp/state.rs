//! One upcall as the policy sees it.

use punctual_model::{Backlog, Duration, Instant, JobId, Overrun, Rank, Upcall};

use super::decisions::{Fate, Missed};
use super::most_pending;

#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) task: u32,
    pub(super) period: Duration,
    pub(super) batch: u32,
    pub(super) quantum: u32,
    pub(super) overrun: Overrun,
    /// Released and not complete; the oldest of them is `index`.
    pub(super) pending: u64,
    pub(super) index: u64,
    /// When job `index` was released, if any is pending.
    pub(super) release: Instant,
    /// PDUs of job `index` already processed.
    pub(super) done: u32,
    /// Of the pending jobs so many, the oldest, are known to be late.
    pub(super) told: u64,
    pub(super) demoted: bool,
    /// The next release on an absolute time line, so the phase survives whatever happens to single
    /// jobs. Of a suspended upcall: the one it would have had.
    pub(super) grid: Instant,
    pub(super) suspended: bool,
    /// Indices dropped between the oldest job, which had begun, and the next.
    pub(super) gap: u64,
    /// Of equal periods the lower goes first.
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
            told: 0,
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

    /// The next release as the run queue must know it.
    pub(super) fn next(&self) -> Instant {
        if self.suspended { Instant::MAX } else { self.grid }
    }

    /// The next release; none of one that is suspended.
    pub(super) fn next_if_any(&self) -> Option<Instant> {
        (!self.suspended).then_some(self.grid)
    }

    /// Its releases at or before `now`, the next of which is due by then. A long absence is one
    /// division, not a loop over the periods missed.
    pub(super) fn release_until(&mut self, now: Instant) {
        if self.pending == 0 {
            self.release = self.grid;
        }
        let released = (now - self.grid) / self.period + 1;
        self.pending += released;
        let passed = self.period.checked_mul(released).unwrap_or(Duration::MAX);
        self.grid = self.grid.saturating_add(passed);
    }

    /// Jobs whose absolute deadline, the release after theirs, has passed.
    pub(super) fn overdue(&self) -> u64 {
        self.pending.saturating_sub(1)
    }

    /// Jobs that are more than [`most_pending`]. They are dropped once the oldest is not one that
    /// has begun.
    fn surplus(&self) -> u64 {
        self.pending.saturating_sub(most_pending(self.period))
    }

    /// Whether there are late jobs that the driver has not been told of and should be. Behind a job
    /// that has begun those that will be dropped (under `Skip` and `Abort` all) wait until it is
    /// over, so that indices are dropped from the oldest on.
    pub(super) fn has_to_tell(&self) -> bool {
        match self.overrun {
            _ if self.surplus() > 0 => self.done == 0 || self.told == 0,
            Overrun::Skip | Overrun::Abort if self.done > 0 => self.overdue() > 0 && self.told == 0,
            Overrun::Skip | Overrun::Abort => self.overdue() > 0,
            _ => self.overdue() > self.told,
        }
    }

    /// Whether the oldest job, over at `now`, was late and nobody was told.
    pub(super) fn is_late_untold(&self, now: Instant) -> bool {
        // With more than one pending its deadline was met by a release; else the grid is it.
        self.told == 0 && (self.overdue() > 0 || now > self.grid)
    }

    /// The release of the `nth` pending job, from 0.
    fn release_of(&self, nth: u64) -> Instant {
        match nth {
            0 => self.release,
            // The period may have changed behind the oldest, and jobs been dropped there.
            _ => self.grid - self.period * (self.pending - nth),
        }
    }

    /// The `jobs` oldest are over, however they ended.
    pub(super) fn drop_oldest(&mut self, jobs: u64) {
        if jobs == 0 {
            return;
        }
        self.release = if jobs == self.pending { self.grid } else { self.release_of(jobs) };
        self.done = 0;
        self.index += jobs + core::mem::take(&mut self.gap);
        self.pending -= jobs;
        self.told = self.told.saturating_sub(jobs);
    }

    /// Of the `limit` oldest jobs the late ones to tell of, and what becomes of them; some are to
    /// tell of.
    pub(super) fn tell(&mut self, limit: u64) -> Missed {
        let (surplus, begun) = (self.surplus(), self.done > 0);
        let limit = if surplus > 0 { limit.min(1) } else { limit };
        let overdue = self.overdue().min(limit);
        let (first, jobs, fate) = match self.overrun {
            Overrun::Skip if begun => (0, 1, Fate::Late),
            Overrun::Abort if begun => (0, 1, Fate::Aborted),
            Overrun::Skip | Overrun::Abort => (0, self.overdue(), Fate::Skipped),
            _ if surplus > 0 && !begun => (0, surplus, Fate::Skipped),
            Overrun::CatchUp | Overrun::Notify | Overrun::Demote => {
                (self.told, overdue - self.told, Fate::Late)
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
            Fate::Late => self.told = first + jobs,
            Fate::Skipped | Fate::Aborted => self.drop_oldest(jobs),
        }
        self.demoted |= self.overrun == Overrun::Demote;
        missed
    }

    /// Drops all but one of the jobs released: the one that has begun, or else the newest. What was
    /// dropped.
    pub(super) fn forgive(&mut self) -> Option<Backlog> {
        let backlog = self.backlog()?;
        let jobs = Some(backlog.jobs - 1).filter(|jobs| *jobs > 0)?;
        self.told = 0;
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

    /// What is released and not complete, if anything is.
    pub(super) fn backlog(&self) -> Option<Backlog> {
        (self.pending > 0).then_some(Backlog {
            oldest: self.job(),
            release: self.release,
            period: self.period,
            jobs: self.pending,
            begun: self.done > 0,
        })
    }

    /// Nothing is released any more.
    pub(super) fn forget(&mut self) {
        self.drop_oldest(self.pending);
        self.told = 0;
        self.demoted = false;
    }
}
