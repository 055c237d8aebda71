//! Events, statistics and what is left at the end, as C reads them.

use std::mem::offset_of;

use punctual_trace::{Event, Kind};

use crate::sized::Record;

/// What an event is about.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_event_kind {
    /// The job's first instruction ran.
    PUNCTUAL_EVENT_START = 0,
    /// It gave way at a yield point.
    PUNCTUAL_EVENT_GIVE_WAY = 1,
    /// It got the CPU back.
    PUNCTUAL_EVENT_RESUME = 2,
    /// It is complete.
    PUNCTUAL_EVENT_COMPLETE = 3,
    /// It and the `jobs` - 1 after it are not complete at their deadlines, and go on or will run.
    PUNCTUAL_EVENT_OVERRUN = 4,
    /// It and the `jobs` - 1 after it will never begin.
    PUNCTUAL_EVENT_SKIP = 5,
    /// It had begun, and ended incomplete at a yield point.
    PUNCTUAL_EVENT_ABORT = 6,
    /// It did not come to its yield point in time, and was put aside.
    PUNCTUAL_EVENT_CONTAINED = 7,
    /// Of a reservation: its next period begins, with a whole budget. Upcalls have none of these three.
    PUNCTUAL_EVENT_REPLENISH = 8,
    /// Of a reservation: it may not run, or only as an ordinary program.
    PUNCTUAL_EVENT_THROTTLE = 9,
    /// Of a reservation that was throttled: it may run.
    PUNCTUAL_EVENT_UNTHROTTLE = 10,
}

/// Something that happened to a job. Its layout does not change.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct punctual_event {
    /// When (CLOCK_MONOTONIC).
    pub at_ns: u64,
    /// When the job was released.
    pub release_ns: u64,
    /// Which job of its upcall, from 0.
    pub job: u64,
    /// How many jobs it is about.
    pub jobs: u64,
    /// Which upcall.
    pub id: u32,
    /// A punctual_event_kind.
    pub kind: u32,
}

impl From<Event> for punctual_event {
    fn from(event: Event) -> Self {
        use punctual_event_kind::*;
        let (kind, jobs) = match event.kind {
            Kind::Start => (PUNCTUAL_EVENT_START, 1),
            Kind::GiveWay => (PUNCTUAL_EVENT_GIVE_WAY, 1),
            Kind::Resume => (PUNCTUAL_EVENT_RESUME, 1),
            Kind::Complete => (PUNCTUAL_EVENT_COMPLETE, 1),
            Kind::Overrun { jobs } => (PUNCTUAL_EVENT_OVERRUN, jobs),
            Kind::Skip { jobs } => (PUNCTUAL_EVENT_SKIP, jobs),
            Kind::Abort => (PUNCTUAL_EVENT_ABORT, 1),
            Kind::Contained => (PUNCTUAL_EVENT_CONTAINED, 1),
            Kind::Replenish { .. } => (PUNCTUAL_EVENT_REPLENISH, 1),
            Kind::Throttle { .. } => (PUNCTUAL_EVENT_THROTTLE, 1),
            Kind::Unthrottle => (PUNCTUAL_EVENT_UNTHROTTLE, 1),
        };
        Self {
            at_ns: event.at.as_nanos(),
            release_ns: event.release.as_nanos(),
            job: event.job.index,
            jobs,
            id: event.job.task,
            kind: kind as u32,
        }
    }
}

/// A distribution of times; all zero if nothing was counted. Its layout does not change.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct punctual_times {
    /// How many were counted.
    pub count: u64,
    /// Half of them are at most this.
    pub p50_ns: u64,
    /// 99 of 100 are at most this.
    pub p99_ns: u64,
    /// The longest, exactly.
    pub max_ns: u64,
}

/// What the jobs of an upcall amounted to.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct punctual_stats {
    /// sizeof(punctual_stats).
    pub size: usize,
    /// Jobs that are complete.
    pub jobs: u64,
    /// Jobs that completed after their deadline, or were unfinished, skipped or aborted when it had
    /// passed, or were contained.
    pub late: u64,
    /// Jobs that were not complete at their deadline, and went on or still ran.
    pub overruns: u64,
    /// Jobs that never began.
    pub skipped: u64,
    /// Jobs that were ended incomplete at a yield point.
    pub aborted: u64,
    /// Jobs whose handler was put aside.
    pub contained: u64,
    /// How often a job gave way.
    pub gave_way: u64,
    /// Jobs released and not complete when all were stopped.
    pub unfinished: u64,
    /// The longest that a job completed after its deadline.
    pub max_tardiness_ns: u64,
    /// From a job's release to its first instruction.
    pub wakeup_latency: punctual_times,
    /// From a job's release to its completion.
    pub response_time: punctual_times,
    /// Events of all upcalls that were lost before they were counted, so far: if not zero, these
    /// statistics have gaps.
    pub events_lost: u64,
}

// SAFETY: integers only, a size first.
unsafe impl Record for punctual_stats {
    const NAME: &'static str = "punctual_stats";
    const FIRST: usize = offset_of!(Self, events_lost) + size_of::<u64>();
}

/// What is left of upcalls that ran.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct punctual_stopped {
    /// sizeof(punctual_stopped).
    pub size: usize,
    /// Processor time that all took together.
    pub exec_time_ns: u64,
    /// Events lost before they were counted.
    pub events_lost: u64,
    /// Jobs that were released and not complete.
    pub unfinished: u64,
    /// Handlers that have not come back. Their arguments must be left alone for ever, and the library
    /// must stay loaded; punctual_activity says PUNCTUAL_CONTAINED for those upcalls.
    pub stuck: u64,
}

// SAFETY: integers only, a size first.
unsafe impl Record for punctual_stopped {
    const NAME: &'static str = "punctual_stopped";
    const FIRST: usize = offset_of!(Self, stuck) + size_of::<u64>();
}
