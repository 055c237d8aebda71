//! The events of a run.

use alloc::vec::Vec;

use punctual_model::{Backlog, Instant, JobId, Service};

/// Something that happened to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Instant,
    /// To which job.
    pub job: JobId,
    /// When that job was released.
    pub release: Instant,
    /// What.
    pub kind: Kind,
}

/// What happened to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Its first instruction ran.
    Start,
    /// It gave way at a yield point (or was preempted, where its task is preemptible anywhere).
    GiveWay,
    /// It got the CPU back.
    Resume,
    /// It is complete.
    Complete,
    /// It and the `jobs − 1` after it are not complete at their absolute deadlines, and will go on
    /// or still run. Comes once for each job, when it is noticed.
    Overrun {
        /// How many, this one counted.
        jobs: u64,
    },
    /// It and the `jobs − 1` after it will never begin.
    Skip {
        /// How many, this one counted.
        jobs: u64,
    },
    /// It had begun and ended incomplete at a yield point.
    Abort,
    /// It did not come to its yield point within its budget and the grace, and the thread that runs
    /// it was put aside: for the others it is over.
    Contained,
    /// Of a reservation: its next period begins (the job is that period), with a whole budget.
    Replenish {
        /// So much.
        budget: Service,
    },
    /// Of a reservation: it may not run, or only as an ordinary program, until it is replenished or
    /// let go on.
    Throttle {
        /// Of this period's budget; nothing: it is exhausted.
        left: Service,
    },
    /// Of a reservation that was throttled: it may run.
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

    /// How many jobs it is about, or how much of a budget in nanoseconds, where it says that.
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

/// Where a driver sends its events.
pub trait Sink {
    /// Takes one event. Events of one driver come in the order of their instants.
    fn record(&mut self, event: Event);
}

impl Sink for Vec<Event> {
    fn record(&mut self, event: Event) {
        self.push(event);
    }
}

/// For runs of which nobody wants a trace.
impl Sink for () {
    fn record(&mut self, _: Event) {}
}
