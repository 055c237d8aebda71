//! Whose jobs a trace tells of, and what was promised to them.

use alloc::string::String;

use punctual_model::{Duration, Service};
use serde::{Deserialize, Serialize};

/// What kind of work it is; its jobs are then what the variant says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SubjectKind {
    /// A task of a simulation: a job is a job.
    Task,
    /// A real-time upcall: a job is one activation of its handler.
    Upcall,
    /// A thread that an observer watches: a job is from one wake-up to the next sleep.
    Thread,
    /// A reservation: a job is one of its periods.
    Reservation,
    /// A channel: a job is a message, released at its logical arrival.
    Channel,
    /// A thread that asks for time constraints: a job is one that was granted, released at its start.
    Constraint,
}

impl SubjectKind {
    /// The word for it in tables and messages.
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

/// What was promised, each part if it was. A promise goes both ways: the subject asks for no more
/// than `wcet` each `period`, and gets it by `relative_deadline`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    /// Jobs are released this far apart, or farther.
    pub period: Option<Duration>,
    /// Each job is complete by so long after its release.
    pub relative_deadline: Option<Duration>,
    /// A job needs no more work than this.
    pub wcet: Option<Service>,
}

/// One source of jobs: what `JobId::task` of an event refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// As in the contract, or the command's name.
    pub name: String,
    /// What its jobs are.
    pub kind: SubjectKind,
    /// What it was promised.
    pub promise: Promise,
    /// The thread that runs it (gettid(2)), where one thread does.
    pub thread: Option<u32>,
    /// The CPU it is bound to, where it is bound to one.
    pub cpu: Option<u16>,
}

impl Subject {
    /// A subject of which nothing is promised.
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
