//! Turns the kernel's records into the jobs of each thread.

use alloc::collections::{BTreeMap, VecDeque};

use punctual_model::{Duration, Instant, Service};

use crate::cause::{Edge, ThreadJobs};
use crate::event::{Event, Kind};
use crate::kernel::{KernelEvent, Record};

/// A job of a thread, as it was observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The instant at which the timer that woke the thread was due, or at which it was woken
    /// otherwise.
    pub release: Instant,
    /// The instant at which the thread slept again.
    pub end: Instant,
    /// The execution time in between, as the scheduler accounts it.
    pub exec_time: Service,
}

impl Sample {
    /// Returns the time from the release to the end.
    pub fn response_time(&self) -> Duration {
        self.end.saturating_since(self.release)
    }
}

/// The number of newest jobs of a thread that are remembered: a minute at a thousand jobs a second.
const REMEMBERED: usize = 1 << 16;

/// The observations of one thread.
#[derive(Clone, Debug)]
pub struct Samples {
    /// Its newest jobs, in order.
    pub jobs: VecDeque<Sample>,
    /// The number of its wake-ups, by timers and otherwise.
    pub wakeups: u64,
    /// The number of its wake-ups by timers.
    pub by_timers: u64,
    /// Its execution time while it was watched.
    pub exec_time: Service,
    /// The thread's total execution time when it last left a CPU, and when its job began, in
    /// nanoseconds.
    left_ns: Option<u64>,
    base_ns: Option<u64>,
}

/// Collects the jobs of the threads that were added.
///
/// A job begins with a release and ends where the thread waits for the next, as in [`ThreadJobs`].
/// Each switch and wake-up costs a look-up. Memory is bounded: 65,536 jobs a thread.
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    jobs: ThreadJobs,
    of: BTreeMap<u32, Samples>,
}

impl Sampler {
    /// Starts with no threads.
    pub fn new() -> Self {
        Self::default()
    }

    /// Collects this thread's jobs from here on.
    pub fn add(&mut self, tid: u32) {
        self.jobs.add(tid, tid);
        self.of.entry(tid).or_insert_with(|| Samples {
            jobs: VecDeque::new(),
            wakeups: 0,
            by_timers: 0,
            exec_time: Service::ZERO,
            left_ns: None,
            base_ns: None,
        });
    }

    /// Forgets all observations, and goes on collecting.
    pub fn clear(&mut self) {
        for samples in self.of.values_mut() {
            samples.jobs.clear();
            (samples.wakeups, samples.by_timers, samples.exec_time) = (0, 0, Service::ZERO);
        }
    }

    /// Handles missing records: the current jobs are unknown.
    pub fn gap(&mut self) {
        self.jobs.gap();
        for samples in self.of.values_mut() {
            (samples.left_ns, samples.base_ns) = (None, None);
        }
    }

    /// Handles something unseen that a thread did: its current job is unknown.
    pub fn lose(&mut self, tid: u32) {
        self.jobs.lose(tid);
        if let Some(samples) = self.of.get_mut(&tid) {
            (samples.left_ns, samples.base_ns) = (None, None);
        }
    }

    /// Takes a record and the edges that the [`Observer`](crate::cause::Observer) made of it.
    /// Returns the job that is now known to have ended, if any, and its thread.
    pub fn take(&mut self, record: &Record, edges: [Option<Edge>; 2]) -> Option<(u32, Sample)> {
        match record.what {
            KernelEvent::Switch { prev, prev_exec_ns, .. } => {
                if let Some(samples) = self.of.get_mut(&prev.tid) {
                    let more = samples.left_ns.map_or(0, |left| prev_exec_ns.saturating_sub(left));
                    samples.exec_time += Service::from_nanos(more);
                    samples.left_ns = Some(prev_exec_ns);
                }
            }
            KernelEvent::Gap { .. } => self.gap(),
            _ => {}
        }
        let mut over = None;
        for edge in edges.into_iter().flatten() {
            let events = self.jobs.take(record.at, edge);
            let Edge::Wakes { tid, due, .. } = edge else { continue };
            let Some(samples) = self.of.get_mut(&tid) else { continue };
            samples.wakeups += 1;
            samples.by_timers += u64::from(due.is_some());
            // A record wakes one thread at most.
            for event in events.into_iter().flatten() {
                over = samples.event(event).map(|sample| (tid, sample)).or(over);
            }
        }
        over
    }

    /// Returns the observations of a thread.
    pub fn of(&self, tid: u32) -> Option<&Samples> {
        self.of.get(&tid)
    }
}

impl Samples {
    /// Returns the release of the oldest remembered job and the end of the newest.
    pub fn span(&self) -> Option<(Instant, Instant)> {
        Some((self.jobs.front()?.release, self.jobs.back()?.end))
    }

    fn event(&mut self, event: Event) -> Option<Sample> {
        // It has not run since it fell asleep, so its execution time at that point ends one job and
        // begins the next.
        if event.kind == Kind::Start {
            self.base_ns = self.left_ns;
            return None;
        }
        let exec_ns = self.left_ns?.saturating_sub(self.base_ns?);
        let exec_time = Service::from_nanos(exec_ns);
        let sample = Sample { release: event.release, end: event.at, exec_time };
        if self.jobs.len() == REMEMBERED {
            self.jobs.pop_front();
        }
        self.jobs.push_back(sample);
        Some(sample)
    }
}
