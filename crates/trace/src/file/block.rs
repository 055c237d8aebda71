//! Defines the contents of blocks.

use alloc::string::String;
use alloc::vec::Vec;

use punctual_model::{Duration, Instant, JobId, Service};
use serde::{Deserialize, Serialize};

use crate::cause::Verdict;
use crate::constraint::{Answer, ConstraintRequest};
use crate::event::{Event, Promise, Subject, SubjectKind};

/// A block of a trace file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// The description of the run; always the first block.
    Run(Run),
    /// Declares a subject of the events that follow. A repeated declaration replaces the earlier
    /// one.
    Subject(u32, Subject),
    /// Events in the order of their instants, as far as one thread sent them.
    Events(Vec<Event>),
    /// Events were lost.
    Lost(Lost),
    /// A time constraint was requested. The events of its job follow if it was granted.
    ConstraintRequest(ConstraintRequest),
    /// The reason why a job was late, according to the kernel's records.
    Verdict(Verdict),
    /// The run ended at this instant and the trace is complete.
    End(Instant),
    /// A kind that only a later version knows.
    Unknown {
        /// The number of the kind.
        kind: u8,
        /// The length of the payload.
        bytes: usize,
    },
}

/// The run that a trace describes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// True if the instants are of CLOCK_MONOTONIC; false if of virtual time.
    pub live: bool,
    /// The wall-clock time at instant 0, in nanoseconds since 1970 (0 in virtual time).
    pub epoch_unix_ns: i64,
    /// The command line.
    pub command: String,
    /// The facts about the host, one a line: its kernel, CPUs, limits.
    pub host: Vec<String>,
    /// The contract of the run, as its author wrote it; empty if there was none.
    pub contract: String,
}

/// Events that were dropped because they were not collected in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The instant at which the loss was noticed. The lost events lie between the block before and
    /// here.
    pub(super) at_ns: u64,
    /// The number of lost events.
    pub events: u64,
}

impl Lost {
    /// Records that `events` events were lost, noticed at `at`.
    pub fn new(at: Instant, events: u64) -> Self {
        Self { at_ns: at.as_nanos(), events }
    }

    /// Returns when the loss was noticed.
    pub fn at(&self) -> Instant {
        Instant::from_nanos(self.at_ns)
    }
}

/// A subject in the wire format.
#[derive(Serialize, Deserialize)]
pub(super) struct WireSubject {
    number: u32,
    name: String,
    kind: SubjectKind,
    period_ns: Option<u64>,
    relative_deadline_ns: Option<u64>,
    wcet_ns: Option<u64>,
    thread: Option<u32>,
    cpu: Option<u16>,
}

impl WireSubject {
    pub(super) fn of(number: u32, subject: &Subject) -> Self {
        let Promise { period, relative_deadline, wcet } = subject.promise;
        Self {
            number,
            name: subject.name.clone(),
            kind: subject.kind,
            period_ns: period.map(Duration::as_nanos),
            relative_deadline_ns: relative_deadline.map(Duration::as_nanos),
            wcet_ns: wcet.map(Service::as_nanos),
            thread: subject.thread,
            cpu: subject.cpu,
        }
    }

    pub(super) fn block(self) -> Block {
        let promise = Promise {
            period: self.period_ns.map(Duration::from_nanos),
            relative_deadline: self.relative_deadline_ns.map(Duration::from_nanos),
            wcet: self.wcet_ns.map(Service::from_nanos),
        };
        let Self { name, kind, thread, cpu, .. } = self;
        Block::Subject(self.number, Subject { name, kind, promise, thread, cpu })
    }
}

/// A time constraint in the wire format.
#[derive(Serialize, Deserialize)]
pub(super) struct WireRequest {
    task: u32,
    index: u64,
    at_ns: u64,
    start_ns: u64,
    estimate_ns: u64,
    deadline_ns: u64,
    /// `None` means granted.
    largest_estimate_ns: Option<u64>,
}

impl WireRequest {
    pub(super) fn of(request: &ConstraintRequest) -> Self {
        Self {
            task: request.job.task,
            index: request.job.index,
            at_ns: request.at.as_nanos(),
            start_ns: request.start.as_nanos(),
            estimate_ns: request.estimate.as_nanos(),
            deadline_ns: request.deadline.as_nanos(),
            largest_estimate_ns: match request.answer {
                Answer::Granted => None,
                Answer::Refused { largest_estimate } => Some(largest_estimate.as_nanos()),
            },
        }
    }

    /// Returns `None` for a granted constraint that is due before it begins, which is never
    /// granted.
    pub(super) fn block(self) -> Option<Block> {
        let is_granted = self.largest_estimate_ns.is_none();
        if is_granted && self.deadline_ns <= self.start_ns {
            return None;
        }
        let at = Instant::from_nanos;
        let refused = |nanos| Answer::Refused { largest_estimate: Service::from_nanos(nanos) };
        Some(Block::ConstraintRequest(ConstraintRequest {
            at: at(self.at_ns),
            job: JobId { task: self.task, index: self.index },
            start: at(self.start_ns),
            estimate: Service::from_nanos(self.estimate_ns),
            deadline: at(self.deadline_ns),
            answer: self.largest_estimate_ns.map_or(Answer::Granted, refused),
        }))
    }
}
