//! Counts the events of upcalls, and keeps them for programs that drain them.

use std::collections::{BTreeMap, VecDeque};

use punctual_model::{Backlog, Duration, Instant, JobId};
use punctual_trace::{Event, Sink, Summary, Times};

use super::records::{punctual_stats, punctual_times};

/// The number of events that wait for a program that drains them.
const WAITING: usize = 1 << 16;

pub(crate) struct Tally {
    /// The summary of each upcall, by its number. Numbers are never used again, so a closed upcall
    /// must not take room for ever. Within its summary, each upcall is the first and only task.
    summaries: BTreeMap<u32, Summary>,
    events: VecDeque<Event>,
    /// Events that were pushed out of `events`; the statistics have counted them.
    pushed_out: u64,
    /// Events that were lost so far before they were counted.
    uncounted: u64,
}

impl Tally {
    pub(crate) fn new() -> Self {
        let (summaries, events) = (BTreeMap::new(), VecDeque::new());
        Self { summaries, events, pushed_out: 0, uncounted: 0 }
    }

    /// Sets the relative deadline of `id` from now on.
    pub(crate) fn declare(&mut self, id: u32, relative_deadline: Duration) {
        let summary = self.summaries.entry(id).or_insert_with(|| Summary::new([]));
        summary.declare(0, relative_deadline);
    }

    /// Frees the statistics of `id`, and returns whether there were any. Its later events are kept
    /// but not counted.
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

    /// Sets the number of events that were lost before they could be counted, since all began to
    /// run.
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

    /// Takes the oldest events, at most `most`, and the number lost since the last call.
    pub(crate) fn take(&mut self, most: usize) -> (impl Iterator<Item = Event> + '_, u64) {
        let lost = std::mem::take(&mut self.pushed_out);
        let most = most.min(self.events.len());
        (self.events.drain(..most), lost)
    }

    /// Returns the statistics, or `None` if there never was such an upcall, or it was forgotten.
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

/// Returns the same job as one of the only task.
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
    fn forgotten_statistics_stay_gone_when_events_follow() {
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
        // Events stay until the program drains them, whatever became of the upcall.
        assert_eq!(tally.take(9).0.count(), 3);
    }

    #[test]
    fn lost_events_are_counted_while_upcalls_run() {
        let mut tally = Tally::new();
        tally.declare(0, Duration::from_millis(10));
        tally.lost(6);
        assert_eq!(tally.stats(0).expect("declared").events_lost, 6);
    }
}
