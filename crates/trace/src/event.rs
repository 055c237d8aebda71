//! Defines the events of a run.

use alloc::vec::Vec;

use punctual_model::{Backlog, Instant, JobId, Service};

/// Something that happened to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The instant of the event.
    pub at: Instant,
    /// The job.
    pub job: JobId,
    /// The release of that job.
    pub release: Instant,
    /// The kind of event.
    pub kind: Kind,
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first instruction of the job ran.
    Start,
    /// The job gave way at a yield point (or was preempted, if its task can be preempted anywhere).
    GiveWay,
    /// The job got the CPU back.
    Resume,
    /// The job is complete.
    Complete,
    /// This job and the `jobs − 1` after it are not complete at their absolute deadlines, and will
    /// resume or are still running. Recorded once for each job, when the overrun is noticed.
    Overrun {
        /// The number of jobs, including this one.
        jobs: u64,
    },
    /// This job and the `jobs − 1` after it will never begin.
    Skip {
        /// The number of jobs, including this one.
        jobs: u64,
    },
    /// The job had begun, and ended incomplete at a yield point.
    Abort,
    /// The job did not reach its yield point within its budget and the grace, and its thread was
    /// set aside. The other members of the executor treat the job as ended.
    Contained,
    /// A reservation's next period begins with a full budget. The job is that period.
    Replenish {
        /// The budget.
        budget: Service,
    },
    /// A reservation may not run, or only as an ordinary program, until it is replenished or
    /// unthrottled.
    Throttle {
        /// The rest of this period's budget. Zero means that it is exhausted.
        left: Service,
    },
    /// A throttled reservation may run again.
    Unthrottle,
}

impl Kind {
    /// One word for it: tables and exports.
    ///
    /// ```
    /// assert_eq!(punctual_trace::Kind::GiveWay.word(), "give-way");
    /// ```
    pub fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::GiveWay => "give-way",
            Self::Resume => "resume",
            Self::Complete => "complete",
            Self::Overrun { .. } => "overrun",
            Self::Skip { .. } => "skip",
            Self::Abort => "abort",
            Self::Contained => "contained",
            Self::Replenish { .. } => "replenish",
            Self::Throttle { .. } => "throttle",
            Self::Unthrottle => "unthrottle",
        }
    }

    /// Returns the number of jobs, or the budget in nanoseconds, if the kind has one.
    pub fn value(self) -> Option<u64> {
        match self {
            Self::Overrun { jobs } | Self::Skip { jobs } => Some(jobs),
            Self::Replenish { budget: amount } | Self::Throttle { left: amount } => {
                Some(amount.as_nanos())
            }
            Self::Start
            | Self::GiveWay
            | Self::Resume
            | Self::Complete
            | Self::Abort
            | Self::Contained
            | Self::Unthrottle => None,
        }
    }
}

impl Event {
    /// The events of jobs that were released and are dropped at `at`: one that has begun is
    /// aborted, the others are skipped.
    ///
    /// ```
    /// use punctual_model::{Backlog, Duration, Instant, JobId};
    /// use punctual_trace::{Event, Kind};
    ///
    /// let oldest = JobId { task: 0, index: 7 };
    /// let (release, period) = (Instant::ZERO, Duration::from_millis(10));
    /// let dropped = Backlog { oldest, release, period, jobs: 3, begun: true };
    /// let kinds: Vec<Kind> = Event::dropped(dropped, Instant::ZERO).map(|e| e.kind).collect();
    /// assert_eq!(kinds, [Kind::Abort, Kind::Skip { jobs: 2 }]);
    /// ```
    pub fn dropped(backlog: Backlog, at: Instant) -> impl Iterator<Item = Self> {
        let Backlog { oldest: job, release, period, jobs, begun } = backlog;
        let aborted = begun.then_some(Self { at, job, release, kind: Kind::Abort });
        let begun = u64::from(begun);
        let skipped = (jobs > begun).then(|| Self {
            at,
            job: JobId { index: job.index + begun, ..job },
            release: release.saturating_add(period * begun),
            kind: Kind::Skip { jobs: jobs - begun },
        });
        aborted.into_iter().chain(skipped)
    }
}

/// A receiver of a driver's events.
pub trait Sink {
    /// Takes one event. Events of one driver come in the order of their instants.
    fn record(&mut self, event: Event);
}

impl Sink for Vec<Event> {
    fn record(&mut self, event: Event) {
        self.push(event);
    }
}

/// Discards all events, for runs without a trace.
impl Sink for () {
    fn record(&mut self, _: Event) {}
}
