//! The events of upcalls, counted and kept for those who want each.

use std::collections::VecDeque;

use punctual_model::{Backlog, Duration, Instant};
use punctual_trace::{Event, Sink, Summary, TaskSummary, Times};

use super::records::{punctual_stats, punctual_times};

/// Events that wait for a program that drains them.
const WAITING: usize = 1 << 16;

pub(crate) struct Tally {
    summary: Summary,
    events: VecDeque<Event>,
    /// Pushed out of `events`; no statistics miss them.
    pushed_out: u64,
    /// Lost before they were counted; known once all are stopped.
    pub(crate) uncounted: u64,
}

impl Tally {
    pub(crate) fn new() -> Self {
        let summary = Summary::new([]);
        Self { summary, events: VecDeque::new(), pushed_out: 0, uncounted: 0 }
    }

    /// From now on `id` has this relative deadline.
    pub(crate) fn declare(&mut self, id: u32, relative_deadline: Duration) {
        self.summary.declare(id, relative_deadline);
    }

    pub(crate) fn count(&mut self, events: impl Iterator<Item = Event>) {
        for event in events {
            self.summary.record(event);
            if self.events.len() == WAITING {
                self.events.pop_front();
                self.pushed_out += 1;
            }
            self.events.push_back(event);
        }
    }

    pub(crate) fn end(&mut self, end: Instant, unfinished: Vec<Backlog>, uncounted: u64) {
        for backlog in unfinished {
            self.summary.end(end, backlog);
        }
        self.uncounted = uncounted;
    }

    /// The oldest events, at most `most`, and how many were lost since the last call.
    pub(crate) fn take(&mut self, most: usize) -> (impl Iterator<Item = Event> + '_, u64) {
        let lost = std::mem::take(&mut self.pushed_out);
        let most = most.min(self.events.len());
        (self.events.drain(..most), lost)
    }

    /// None if there never was such an upcall.
    pub(crate) fn stats(&self, id: u32) -> Option<punctual_stats> {
        let task: &TaskSummary = self.summary.tasks().get(id as usize)?;
        Some(punctual_stats {
            size: size_of::<punctual_stats>(),
            jobs: task.jobs,
            late: task.late,
            overruns: task.overruns,
            skipped: task.skipped,
            aborted: task.aborted,
            contained: task.contained,
            gave_way: task.gave_way,
            unfinished: task.unfinished,
            max_tardiness_ns: task.max_tardiness.as_nanos(),
            wakeup_latency: times(&task.wakeup_latency),
            response_time: times(&task.response_time),
            events_lost: self.uncounted,
        })
    }
}

fn times(times: &Times) -> punctual_times {
    let percentile = |percent| times.percentile(percent).unwrap_or_default().as_nanos();
    punctual_times {
        count: times.count(),
        p50_ns: percentile(50.0),
        p99_ns: percentile(99.0),
        max_ns: times.max().unwrap_or_default().as_nanos(),
    }
}
