//! Tracks the state of one subject, and checks each event against its earlier events.

use alloc::collections::BTreeMap;

use punctual_model::{Duration, Instant, JobId, Service};

use crate::event::Event;
use crate::subject::Promise;

/// The state of one subject.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    pub(super) promise: Promise,
    /// The subject was declared, with or without a promise.
    pub(super) is_declared: bool,
    /// The job that has begun and has not ended.
    pub(super) begun: Option<Begun>,
    /// The newest release that was seen.
    pub(super) newest: Option<(JobId, Instant)>,
    pub(super) released: u64,
    pub(super) complete: u64,
    pub(super) late: u64,
    pub(super) first_late: Option<JobId>,
    pub(super) max_tardiness: Duration,
    pub(super) too_early: u64,
    pub(super) contradiction: Option<Instant>,
    /// Time constraints that were granted and have not ended, by job index.
    pub(super) granted: BTreeMap<u64, Granted>,
    /// At least one time constraint was granted.
    pub(super) was_granted: bool,
    pub(super) refused: u64,
    /// Events were lost: the next one may belong to a job whose start was not seen.
    pub(super) blind: bool,
}

/// The release and the deadline of a job. The deadline is never before the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) release: Instant,
    pub(super) deadline: Instant,
    pub(super) wcet: Option<Service>,
}

/// A time constraint that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) start: Instant,
    pub(super) estimate: Service,
    pub(super) deadline: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) job: JobId,
    pub(super) release: Instant,
    pub(super) runs: bool,
}

impl Account {
    /// Returns when this job is due, if a deadline was promised.
    pub(super) fn due(&self, job: JobId, release: Instant) -> Option<Due> {
        if let Some(granted) = self.granted.get(&job.index) {
            let Granted { start, estimate, deadline } = *granted;
            return Some(Due { release: start, deadline, wcet: Some(estimate) });
        }
        let deadline = release.saturating_add(self.promise.relative_deadline?);
        Some(Due { release, deadline, wcet: self.promise.wcet })
    }

    /// Counts the first event of a job's release. Does nothing for a job that is not newer than the
    /// newest.
    pub(super) fn released(&mut self, job: JobId, release: Instant) {
        if let Some((newest, before)) = self.newest {
            if job.index <= newest.index {
                return;
            }
            let due = (job.index - newest.index)
                .checked_mul(self.promise.period.map_or(0, Duration::as_nanos));
            let gap = release.saturating_since(before).as_nanos();
            self.too_early += u64::from(due.is_some_and(|due| gap < due));
        }
        self.released += 1;
        self.newest = Some((job, release));
    }

    /// Checks an event of the job that has begun against the state, and updates the state.
    pub(super) fn goes_on(&mut self, event: &Event, ran: bool, runs: Option<bool>) {
        let Event { at, job, release, .. } = *event;
        match self.begun {
            Some(begun) if begun.job == job && begun.runs == ran && begun.release == release => {}
            None if self.blind => {}
            _ => {
                self.contradiction.get_or_insert(at);
            }
        }
        self.begun = runs.map(|runs| Begun { job, release, runs });
    }
}
