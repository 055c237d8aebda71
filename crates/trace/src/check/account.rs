//! What is known of one subject, and whether an event can follow what was seen of it.

use alloc::collections::BTreeMap;

use punctual_model::{Duration, Instant, JobId, Service};

use crate::event::Event;
use crate::subject::Promise;

/// What is known of a subject.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    pub(super) promise: Promise,
    /// The promise is known: none, too.
    pub(super) is_declared: bool,
    /// The job that has begun and is not over.
    pub(super) begun: Option<Begun>,
    /// The newest release seen.
    pub(super) newest: Option<(JobId, Instant)>,
    pub(super) released: u64,
    pub(super) complete: u64,
    pub(super) late: u64,
    pub(super) first_late: Option<JobId>,
    pub(super) max_tardiness: Duration,
    pub(super) too_early: u64,
    pub(super) contradiction: Option<Instant>,
    /// Time constraints that were granted and are not over, by their jobs' numbers.
    pub(super) granted: BTreeMap<u64, Granted>,
    /// At least one was granted.
    pub(super) was_granted: bool,
    pub(super) refused: u64,
    /// Events were lost: the next may be of a job whose beginning was not seen.
    pub(super) blind: bool,
}

/// When a job is due: never before its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) release: Instant,
    pub(super) deadline: Instant,
    pub(super) wcet: Option<Service>,
}

/// A time constraint.
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
    /// When this job is due, if that was promised.
    pub(super) fn due(&self, job: JobId, release: Instant) -> Option<Due> {
        if let Some(granted) = self.granted.get(&job.index) {
            let Granted { start, estimate, deadline } = *granted;
            return Some(Due { release: start, deadline, wcet: Some(estimate) });
        }
        let deadline = release.saturating_add(self.promise.relative_deadline?);
        Some(Due { release, deadline, wcet: self.promise.wcet })
    }

    /// A job of this release is spoken of for the first time, unless it is the newest.
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

    /// Whether an event of the job that has begun fits what is known, and what is known after it.
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
