//! Generates arrivals in bursts.

use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Task};
use rand::{Rng, RngExt};

use super::{Arrival, Arrivals};

/// Releases that are as clustered as the jitter allows.
///
/// A burst begins with a release that becomes known as late as allowed; all releases until then
/// become known with it. The rest of the burst is strictly periodic and known at once. Then comes a
/// pause of up to four periods. Phases, the lengths of bursts (up to eight jobs beyond the pile)
/// and pauses are drawn. Every job runs for its wcet.
#[derive(Clone, Debug)]
pub struct Bursty<'a, R> {
    tasks: &'a [Task],
    bursts: Vec<Burst>,
    rng: R,
}

#[derive(Clone, Debug)]
struct Burst {
    next: Instant,
    /// The instant at which everything released by then becomes known.
    pile: Instant,
    /// The remaining jobs of this burst.
    left: u64,
}

impl<'a, R: Rng> Bursty<'a, R> {
    /// Makes arrivals of `tasks`. Every draw comes from `rng`, so its seed replays the run.
    pub fn new(tasks: &'a [Task], mut rng: R) -> Self {
        let bursts = tasks
            .iter()
            .map(|task| {
                let phase = rng.random_range(0..=task.min_inter_arrival().as_nanos());
                Burst { next: Instant::from_nanos(phase), pile: Instant::ZERO, left: 0 }
            })
            .collect();
        Self { tasks, bursts, rng }
    }
}

impl<R: Rng> Arrivals for Bursty<'_, R> {
    fn next(&mut self, task: u32) -> Arrival {
        let (contract, burst) = (&self.tasks[task as usize], &mut self.bursts[task as usize]);
        let (period, jitter) = (contract.min_inter_arrival(), contract.release_jitter());
        if burst.left == 0 {
            burst.left = jitter / period + self.rng.random_range(1..=8);
            let pause = self.rng.random_range(0..=4 * period.as_nanos());
            burst.next += Duration::from_nanos(pause);
            burst.pile = burst.next + jitter;
        }
        let release = burst.next;
        burst.left -= 1;
        burst.next = release + period;
        Arrival { release, known: release.max(burst.pile), exec_time: contract.wcet() }
    }
}
