//! Defines events, statistics and the result of stopping, as C reads them.

use std::mem::offset_of;

use punctual_trace::{Event, Kind};

use crate::sized::Record;

/// The kind of an event.
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
    /// This job and the `jobs` - 1 after it are not complete at their deadlines, and go on or will
    /// run.
    PUNCTUAL_EVENT_OVERRUN = 4,
    /// This job and the `jobs` - 1 after it will never begin.
    PUNCTUAL_EVENT_SKIP = 5,
    /// It had begun, and ended incomplete at a yield point.
    PUNCTUAL_EVENT_ABORT = 6,
    /// It did not reach its yield point in time, and its handler was set aside.
    PUNCTUAL_EVENT_CONTAINED = 7,
    /// A reservation's next period begins, with a full budget. Upcalls have none of these last
    /// three kinds.
    PUNCTUAL_EVENT_REPLENISH = 8,
    /// A reservation may not run, or only as an ordinary program.
    PUNCTUAL_EVENT_THROTTLE = 9,
    /// A throttled reservation may run again.
    PUNCTUAL_EVENT_UNTHROTTLE = 10,
}

/// Something that happened to a job. Its layout does not change.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct punctual_event {
    /// The time of the event (CLOCK_MONOTONIC).
    pub at_ns: u64,
    /// The release of the job.
    pub release_ns: u64,
    /// The index of the job of its upcall, from 0.
    pub job: u64,
    /// The number of jobs that the event concerns.
    pub jobs: u64,
    /// The number of the upcall.
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
    /// The number of times.
    pub count: u64,
    /// The median: half of the times are at most this.
    pub p50_ns: u64,
    /// 99 of 100 times are at most this.
    pub p99_ns: u64,
    /// The exact longest time.
    pub max_ns: u64,
}

/// The statistics of the jobs of an upcall.
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
    /// Jobs whose handler was set aside.
    pub contained: u64,
    /// The number of times that a job gave way.
    pub gave_way: u64,
    /// Jobs that were released and not complete when all were stopped.
    pub unfinished: u64,
    /// The greatest tardiness of a complete job.
    pub max_tardiness_ns: u64,
    /// The times from a job's release to its first instruction.
    pub wakeup_latency: punctual_times,
    /// The times from a job's release to its completion.
    pub response_time: punctual_times,
    /// Events of all upcalls that were lost so far before they were counted. If not zero, these
    /// statistics have gaps.
    pub events_lost: u64,
}

// SAFETY: integers only, a size first.
unsafe impl Record for punctual_stats {
    const NAME: &'static str = "punctual_stats";
    const FIRST: usize = offset_of!(Self, events_lost) + size_of::<u64>();
}

/// The result of stopping upcalls.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct punctual_stopped {
    /// sizeof(punctual_stopped).
    pub size: usize,
    /// The processor time of all upcalls together.
    pub exec_time_ns: u64,
    /// Events that were lost before they were counted.
    pub events_lost: u64,
    /// Jobs that were released and not complete.
    pub unfinished: u64,
    /// Handlers that have not returned. Their arguments must be left alone for ever, and the
    /// library must stay loaded. punctual_activity_of gives PUNCTUAL_CONTAINED for these upcalls.
    pub stuck: u64,
}

// SAFETY: integers only, a size first.
unsafe impl Record for punctual_stopped {
    const NAME: &'static str = "punctual_stopped";
    const FIRST: usize = offset_of!(Self, stuck) + size_of::<u64>();
}
