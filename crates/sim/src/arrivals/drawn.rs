//! Generates arrivals at random.

use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Task};
use rand::{Rng, RngExt};

use super::exec_times::draw_up_to_wcet;
use super::{Arrival, Arrivals, Timeline};

/// Random arrivals within the contract: gaps of at least the minimum (often exactly that, because
/// density is what hurts), jitter up to the bound, execution times up to the wcet.
#[derive(Clone, Debug)]
pub struct Drawn<'a, R> {
    tasks: &'a [Task],
    timelines: Vec<Timeline>,
    rng: R,
}

impl<'a, R: Rng> Drawn<'a, R> {
    /// Makes arrivals of `tasks`. Every draw comes from `rng`, so its seed replays the run.
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
        Arrival { release, known, exec_time: draw_up_to_wcet(contract, &mut self.rng) }
    }
}
