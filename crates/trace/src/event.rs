//! Defines the events of a run, and the subjects of a trace: the owners of jobs, and what was
//! promised to them.

use alloc::string::String;
use alloc::vec::Vec;

use punctual_model::{Backlog, Duration, Instant, JobId, Service};
use serde::{Deserialize, Serialize};

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

/// The kind of work, which determines what its jobs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SubjectKind {
    /// A task of a simulation, with its jobs.
    Task,
    /// A real-time upcall. A job is one activation of its handler.
    Upcall,
    /// A thread that an observer watches. A job lasts from a wake-up to the next sleep.
    Thread,
    /// A reservation. A job is one of its periods.
    Reservation,
    /// A channel. A job is a message, released at its logical arrival.
    Channel,
    /// A thread that requests time constraints. A job is a granted constraint, released at its
    /// start.
    Constraint,
}

impl SubjectKind {
    /// Returns the word for it in tables and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Upcall => "upcall",
            Self::Thread => "thread",
            Self::Reservation => "reservation",
            Self::Channel => "channel",
            Self::Constraint => "constraint",
        }
    }
}

/// The parts of a promise, each of which may be missing. A promise binds both sides: the subject
/// demands no more than `wcet` in each `period`, and gets it within `relative_deadline`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    /// The least time between releases.
    pub period: Option<Duration>,
    /// The time after its release by which each job is complete.
    pub relative_deadline: Option<Duration>,
    /// The most work that a job needs.
    pub wcet: Option<Service>,
}

/// One source of jobs, to which `JobId::task` of an event refers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The name in the contract, or the command's name.
    pub name: String,
    /// The kind, which says what its jobs are.
    pub kind: SubjectKind,
    /// The promise.
    pub promise: Promise,
    /// The thread that runs it (gettid(2)), if it is a single thread.
    pub thread: Option<u32>,
    /// The CPU to which it is bound, if it is bound to one.
    pub cpu: Option<u16>,
}

impl Subject {
    /// Makes a subject to which nothing is promised.
    ///
    /// ```
    /// use punctual_trace::{Subject, SubjectKind};
    ///
    /// let subject = Subject::new("audio", SubjectKind::Upcall);
    /// assert_eq!(subject.promise.relative_deadline, None);
    /// ```
    pub fn new(name: impl Into<String>, kind: SubjectKind) -> Self {
        Self { name: name.into(), kind, promise: Promise::default(), thread: None, cpu: None }
    }
}
