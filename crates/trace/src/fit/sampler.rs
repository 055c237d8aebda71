//! From the kernel's records to the jobs of each thread.

use alloc::collections::{BTreeMap, VecDeque};

use punctual_model::{Instant, Service};

use super::Sample;
use crate::cause::{Edge, ThreadJobs};
use crate::event::{Event, Kind};
use crate::kernel::{Record, What};

/// Jobs of a thread that are remembered, the newest: a minute at a thousand a second.
const REMEMBERED: usize = 1 << 16;

/// What was seen of a thread.
#[derive(Clone, Debug)]
pub struct Samples {
    /// Its newest jobs, in order.
    pub jobs: VecDeque<Sample>,
    /// Its wake-ups, by timers and by others.
    pub wakeups: u64,
    /// Those by timers.
    pub by_timers: u64,
    /// All that it executed while it was watched.
    pub exec_time: Service,
    /// The execution time of its life when it last left a CPU, and when its job began, in nanoseconds.
    left_ns: Option<u64>,
    base_ns: Option<u64>,
}

/// Collects the jobs of the threads it is told of.
///
/// A job begins with a release and ends where the thread waits for the next, as
/// [`ThreadJobs`] has it. Costs a look-up for each switch and wake-up; memory is bounded: 65,536 jobs a
/// thread.
#[derive(Clone, Debug, Default)]
pub struct Sampler {
    jobs: ThreadJobs,
    of: BTreeMap<u32, Samples>,
}

impl Sampler {
    /// Of nobody.
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

    /// Forgets what was seen, and goes on collecting.
    pub fn clear(&mut self) {
        for samples in self.of.values_mut() {
            samples.jobs.clear();
            (samples.wakeups, samples.by_timers, samples.exec_time) = (0, 0, Service::ZERO);
        }
    }

    /// Records are missing: the jobs that were going on are not known.
    pub fn gap(&mut self) {
        self.jobs.gap();
        for samples in self.of.values_mut() {
            (samples.left_ns, samples.base_ns) = (None, None);
        }
    }

    /// Takes a record and the edge that the [`Observer`](crate::cause::Observer) made of it; answers the
    /// job that turned out to be over.
    pub fn take(&mut self, record: &Record, edge: Option<Edge>) -> Option<(u32, Sample)> {
        match record.what {
            What::Switch { prev, prev_exec_ns, .. } => {
                if let Some(samples) = self.of.get_mut(&prev.tid) {
                    let more = samples.left_ns.map_or(0, |left| prev_exec_ns.saturating_sub(left));
                    samples.exec_time += Service::from_nanos(more);
                    samples.left_ns = Some(prev_exec_ns);
                }
            }
            What::Gap { .. } => self.gap(),
            _ => {}
        }
        let edge = edge?;
        let events = self.jobs.take(record.at, edge);
        let Edge::Wakes { tid, due, .. } = edge else { return None };
        let samples = self.of.get_mut(&tid)?;
        samples.wakeups += 1;
        samples.by_timers += u64::from(due.is_some());
        let mut over = None;
        for event in events.into_iter().flatten() {
            over = samples.event(event).or(over);
        }
        Some((tid, over?))
    }

    /// What was seen of a thread.
    pub fn of(&self, tid: u32) -> Option<&Samples> {
        self.of.get(&tid)
    }
}

impl Samples {
    /// When its oldest remembered job was released and its newest was over.
    pub fn span(&self) -> Option<(Instant, Instant)> {
        Some((self.jobs.front()?.release, self.jobs.back()?.end))
    }

    fn event(&mut self, event: Event) -> Option<Sample> {
        // It has not run since it fell asleep: what it had executed then is the end of one job and the
        // beginning of the next.
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
