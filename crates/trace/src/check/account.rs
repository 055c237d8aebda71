//! What is known of one subject, and whether an event can follow what was seen of it.

use punctual_model::{Duration, Instant, JobId};

use crate::event::Event;
use crate::subject::Promise;

/// What is known of a subject.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    pub(super) promise: Promise,
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
    /// Events were lost: the next may be of a job whose beginning was not seen.
    pub(super) blind: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) job: JobId,
    pub(super) release: Instant,
    pub(super) runs: bool,
}

impl Account {
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
