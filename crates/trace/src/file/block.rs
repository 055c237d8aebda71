//! What is in a block.

use alloc::string::String;
use alloc::vec::Vec;

use punctual_model::{Duration, Instant, JobId, Service};
use serde::{Deserialize, Serialize};

use crate::cause::Verdict;
use crate::constraint::{Answer, Asked};
use crate::event::Event;
use crate::subject::{Promise, Subject, SubjectKind};

/// A block of a trace file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// What run this is; the first block.
    Run(Run),
    /// The events that follow may be of this subject; said again, it has changed.
    Subject(u32, Subject),
    /// Events in the order of their instants, as far as one thread sent them.
    Events(Vec<Event>),
    /// Events were lost.
    Lost(Lost),
    /// A time constraint was asked for; the events of its job follow, if it was granted.
    Asked(Asked),
    /// Why a job was late, as the kernel's evidence had it.
    Verdict(Verdict),
    /// The run ended at this instant and the trace is whole.
    End(Instant),
    /// A kind that a later version writes beside what this one knows.
    Unknown {
        /// Its number.
        kind: u8,
        /// Of its payload.
        bytes: usize,
    },
}

/// What run a trace is of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Whether its instants are of CLOCK_MONOTONIC; else of virtual time.
    pub live: bool,
    /// Wall-clock time at instant 0, in nanoseconds since 1970 (virtual time: 0).
    pub epoch_unix_ns: i64,
    /// The command line.
    pub command: String,
    /// What the host said of itself, a line a fact: its kernel, CPUs, limits.
    pub host: Vec<String>,
    /// The contract it ran under, as its author wrote it; empty if there was none.
    pub contract: String,
}

/// Events that were dropped because nobody took them in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Where the loss was noticed; the lost ones lie between the block before and here.
    pub(super) at_ns: u64,
    /// How many.
    pub events: u64,
}

impl Lost {
    /// `events` lost, noticed at `at`.
    pub fn new(at: Instant, events: u64) -> Self {
        Self { at_ns: at.as_nanos(), events }
    }

    /// When the loss was noticed.
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
pub(super) struct WireAsked {
    task: u32,
    index: u64,
    at_ns: u64,
    start_ns: u64,
    estimate_ns: u64,
    deadline_ns: u64,
    /// None: granted.
    largest_estimate_ns: Option<u64>,
}

impl WireAsked {
    pub(super) fn of(asked: &Asked) -> Self {
        Self {
            task: asked.job.task,
            index: asked.job.index,
            at_ns: asked.at.as_nanos(),
            start_ns: asked.start.as_nanos(),
            estimate_ns: asked.estimate.as_nanos(),
            deadline_ns: asked.deadline.as_nanos(),
            largest_estimate_ns: match asked.answer {
                Answer::Granted => None,
                Answer::Refused { largest_estimate } => Some(largest_estimate.as_nanos()),
            },
        }
    }

    /// None: nobody grants what is due before it begins.
    pub(super) fn block(self) -> Option<Block> {
        let is_granted = self.largest_estimate_ns.is_none();
        if is_granted && self.deadline_ns <= self.start_ns {
            return None;
        }
        let at = Instant::from_nanos;
        let refused = |nanos| Answer::Refused { largest_estimate: Service::from_nanos(nanos) };
        Some(Block::Asked(Asked {
            at: at(self.at_ns),
            job: JobId { task: self.task, index: self.index },
            start: at(self.start_ns),
            estimate: Service::from_nanos(self.estimate_ns),
            deadline: at(self.deadline_ns),
            answer: self.largest_estimate_ns.map_or(Answer::Granted, refused),
        }))
    }
}
