//! Arrival patterns: when each job is released and how long it runs.

use alloc::vec;
use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Service, Task};
use rand::{Rng, RngExt};

/// One job to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its nominal release, from which its deadline counts.
    pub release: Instant,
    /// When the scheduler learns of it: up to the release jitter later.
    pub known: Instant,
    /// How long it runs.
    pub exec_time: Service,
}

/// Gives each task's jobs one after the other, in the order of their releases.
pub trait Arrivals {
    /// The next job of `task`.
    fn next(&mut self, task: u32) -> Arrival;
}

/// Releases at most as dense as the contract allows.
#[derive(Clone, Debug)]
struct Timeline {
    next: Instant,
    last_known: Instant,
}

/// Every task from its phase on, strictly periodic, each job running for its wcet. The first job's
/// jitter is the largest, all others' zero: with phases of zero that is the critical instant.
#[derive(Clone, Debug)]
pub struct Periodic<'a> {
    tasks: &'a [Task],
    timelines: Vec<Timeline>,
    first: Vec<bool>,
}

impl<'a> Periodic<'a> {
    /// Task `i` becomes known to the scheduler for the first time at `phases[i]`.
    ///
    /// Its release lies its jitter earlier, or at the origin of time if that is later.
    pub fn new(tasks: &'a [Task], phases: &[Duration]) -> Self {
        let timelines = tasks
            .iter()
            .zip(phases)
            .map(|(task, phase)| Timeline {
                next: Instant::ZERO + phase.saturating_sub(task.release_jitter()),
                last_known: Instant::ZERO,
            })
            .collect();
        Self { tasks, timelines, first: vec![true; tasks.len()] }
    }
}

impl Arrivals for Periodic<'_> {
    fn next(&mut self, task: u32) -> Arrival {
        let task = task as usize;
        let (contract, timeline) = (&self.tasks[task], &mut self.timelines[task]);
        let release = timeline.next;
        let jitter = if self.first[task] { contract.release_jitter() } else { Duration::ZERO };
        self.first[task] = false;
        let known = (release + jitter).max(timeline.last_known);
        timeline.next = release + contract.min_inter_arrival();
        timeline.last_known = known;
        Arrival { release, known, exec_time: contract.wcet() }
    }
}

/// Drawn arrivals within the contract: gaps of at least the minimum (often exactly that, for
/// density is what hurts), jitter up to the bound, running times up to the wcet.
#[derive(Clone, Debug)]
pub struct Drawn<'a, R> {
    tasks: &'a [Task],
    timelines: Vec<Timeline>,
    rng: R,
}

impl<'a, R: Rng> Drawn<'a, R> {
    /// Every draw comes from `rng`, so its seed replays the run.
    pub fn new(tasks: &'a [Task], mut rng: R) -> Self {
        let timelines = tasks
            .iter()
            .map(|task| Timeline {
                next: Instant::from_nanos(
                    rng.random_range(0..=task.min_inter_arrival().as_nanos()),
                ),
                last_known: Instant::ZERO,
            })
            .collect();
        Self { tasks, timelines, rng }
    }
}

impl<R: Rng> Arrivals for Drawn<'_, R> {
    fn next(&mut self, task: u32) -> Arrival {
        let (contract, timeline) = (&self.tasks[task as usize], &mut self.timelines[task as usize]);
        let release = timeline.next;
        let jitter = self.rng.random_range(0..=contract.release_jitter().as_nanos());
        let known = (release + Duration::from_nanos(jitter)).max(timeline.last_known);
        let slack = match self.rng.random_range(0..4) {
            0 => self.rng.random_range(0..=contract.min_inter_arrival().as_nanos()),
            _ => 0,
        };
        timeline.next = release + contract.min_inter_arrival() + Duration::from_nanos(slack);
        timeline.last_known = known;
        let wcet = contract.wcet().as_nanos();
        let exec_time = match self.rng.random_range(0..3) {
            0 => self.rng.random_range(1..=wcet),
            _ => wcet,
        };
        Arrival { release, known, exec_time: Service::from_nanos(exec_time) }
    }
}
