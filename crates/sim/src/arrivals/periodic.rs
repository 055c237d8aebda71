//! Generates strictly periodic arrivals.

use alloc::vec;
use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Task};

use super::{Arrival, Arrivals, Timeline};

/// Strictly periodic releases of every task from its phase on. Each job runs for its wcet. The
/// jitter of the first job is the largest, that of all others zero; with phases of zero this is the
/// critical instant.
#[derive(Clone, Debug)]
pub struct Periodic<'a> {
    tasks: &'a [Task],
    timelines: Vec<Timeline>,
    first: Vec<bool>,
}

impl<'a> Periodic<'a> {
    /// Makes arrivals of which task `i` first becomes known to the scheduler at `phases[i]`.
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
