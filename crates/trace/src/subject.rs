//! Defines the subjects of a trace: the owners of jobs, and what was promised to them.

use alloc::string::String;

use punctual_model::{Duration, Service};
use serde::{Deserialize, Serialize};

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
