//! The events of upcalls, counted and kept for those who want each.

use std::collections::{BTreeMap, VecDeque};

use punctual_model::{Backlog, Duration, Instant, JobId};
use punctual_trace::{Event, Sink, Summary, Times};

use super::records::{punctual_stats, punctual_times};

/// Events that wait for a program that drains them.
const WAITING: usize = 1 << 16;

pub(crate) struct Tally {
    /// One for each upcall, by its number: a number is never given again, so that what is closed must
    /// not take room for ever. Inside, each upcall is the first and only task.
    summaries: BTreeMap<u32, Summary>,
    events: VecDeque<Event>,
    /// Pushed out of `events`; no statistics miss them.
    pushed_out: u64,
    /// Lost before they were counted, so far.
    uncounted: u64,
}

impl Tally {
    pub(crate) fn new() -> Self {
        let (summaries, events) = (BTreeMap::new(), VecDeque::new());
        Self { summaries, events, pushed_out: 0, uncounted: 0 }
    }

    /// From now on `id` has this relative deadline.
    pub(crate) fn declare(&mut self, id: u32, relative_deadline: Duration) {
        let summary = self.summaries.entry(id).or_insert_with(|| Summary::new([]));
        summary.declare(0, relative_deadline);
    }

    /// Frees what was counted of `id`; whether there was anything. Its later events are only kept.
    pub(crate) fn forget(&mut self, id: u32) -> bool {
        self.summaries.remove(&id).is_some()
    }

    pub(crate) fn count(&mut self, events: impl Iterator<Item = Event>) {
        for event in events {
            if let Some(summary) = self.summaries.get_mut(&event.job.task) {
                summary.record(Event { job: first(event.job), ..event });
            }
            if self.events.len() == WAITING {
                self.events.pop_front();
                self.pushed_out += 1;
            }
            self.events.push_back(event);
        }
    }

    /// So many events were lost before they could be counted, since all began to run.
    pub(crate) fn lost(&mut self, events: u64) {
        self.uncounted = events;
    }

    pub(crate) fn end(&mut self, end: Instant, unfinished: Vec<Backlog>) {
        for backlog in unfinished {
            if let Some(summary) = self.summaries.get_mut(&backlog.oldest.task) {
                summary.end(end, Backlog { oldest: first(backlog.oldest), ..backlog });
            }
        }
    }

    /// The oldest events, at most `most`, and how many were lost since the last call.
    pub(crate) fn take(&mut self, most: usize) -> (impl Iterator<Item = Event> + '_, u64) {
        let lost = std::mem::take(&mut self.pushed_out);
        let most = most.min(self.events.len());
        (self.events.drain(..most), lost)
    }

    /// None if there never was such an upcall, or it was forgotten.
    pub(crate) fn stats(&self, id: u32) -> Option<punctual_stats> {
        let task = self.summaries.get(&id)?.tasks().first()?;
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

/// The same job, of the only task.
fn first(job: JobId) -> JobId {
    JobId { task: 0, ..job }
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

#[cfg(test)]
mod tests {
    use punctual_trace::Kind;

    use super::*;

    fn event(id: u32, index: u64, at_ms: u64, kind: Kind) -> Event {
        let release = Instant::from_nanos(index * 10_000_000);
        let at = Instant::from_nanos(at_ms * 1_000_000);
        Event { at, job: JobId { task: id, index }, release, kind }
    }

    #[test]
    fn each_upcall_is_counted_by_its_own_number_and_deadline() {
        let mut tally = Tally::new();
        tally.declare(4, Duration::from_millis(10));
        tally.declare(900_000, Duration::from_millis(30));
        let complete = |id| event(id, 0, 20, Kind::Complete);
        tally.count([complete(4), complete(900_000), complete(5)].into_iter());
        let counted = |id| tally.stats(id).map(|stats| (stats.jobs, stats.late));
        assert_eq!(counted(4), Some((1, 1)));
        assert_eq!(counted(900_000), Some((1, 0)));
        assert_eq!(counted(5), None);
        assert_eq!(counted(0), None);
    }

    #[test]
    fn what_is_forgotten_is_gone_and_what_still_comes_of_it_brings_nothing_back() {
        let mut tally = Tally::new();
        for id in 0..3 {
            tally.declare(id, Duration::from_millis(10));
        }
        assert!(tally.forget(1) && !tally.forget(1) && !tally.forget(7));
        tally.count((0..3).map(|id| event(id, 0, 3, Kind::Complete)));
        let (release, period) = (Instant::ZERO, Duration::from_millis(10));
        let left = |task| {
            let oldest = JobId { task, index: 1 };
            Backlog { oldest, release, period, jobs: 2, begun: false }
        };
        tally.end(Instant::from_nanos(5_000_000), vec![left(1), left(2)]);
        assert_eq!(tally.summaries.len(), 2);
        assert!(tally.stats(1).is_none());
        let stats = tally.stats(2).expect("not forgotten");
        assert_eq!((stats.jobs, stats.unfinished), (1, 2));
        // Events are the program's until it drains them, whatever became of the upcall.
        assert_eq!(tally.take(9).0.count(), 3);
    }

    #[test]
    fn lost_events_are_told_while_they_run() {
        let mut tally = Tally::new();
        tally.declare(0, Duration::from_millis(10));
        tally.lost(6);
        assert_eq!(tally.stats(0).expect("declared").events_lost, 6);
    }
}
