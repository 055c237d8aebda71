//! Draws execution times at random, for any arrival pattern.

use punctual_model::{Instant, Service, Task};
use rand::{Rng, RngExt};

use super::{Arrival, Arrivals};

/// The arrivals of another pattern, with drawn execution times.
///
/// A job runs for its whole wcet in two of three draws. Otherwise it runs for any time from the
/// least that its contract allows: every job has a last segment, so it is never shorter than that.
#[derive(Clone, Debug)]
pub struct DrawnTimes<'a, A, R> {
    tasks: &'a [Task],
    arrivals: A,
    rng: R,
}

impl<'a, A: Arrivals, R: Rng> DrawnTimes<'a, A, R> {
    /// Wraps the `arrivals` of `tasks`, with execution times drawn from `rng`.
    pub fn new(tasks: &'a [Task], arrivals: A, rng: R) -> Self {
        Self { tasks, arrivals, rng }
    }
}

impl<A: Arrivals, R: Rng> Arrivals for DrawnTimes<'_, A, R> {
    fn next(&mut self, task: u32) -> Arrival {
        let arrival = self.arrivals.next(task);
        let exec_time = draw_up_to_wcet(&self.tasks[task as usize], &mut self.rng);
        Arrival { exec_time: exec_time.min(arrival.exec_time), ..arrival }
    }
}

/// The arrivals of another pattern, with some jobs of high criticality that need their `wcet_high`.
#[derive(Clone, Debug)]
pub struct HighTimes<'a, A, R> {
    tasks: &'a [Task],
    arrivals: A,
    one_in: u32,
    rng: R,
}

impl<'a, A: Arrivals, R: Rng> HighTimes<'a, A, R> {
    /// Wraps the `arrivals` of `tasks`. One in `one_in` jobs needs more, drawn from `rng`; none if
    /// it is zero.
    pub fn new(tasks: &'a [Task], arrivals: A, one_in: u32, rng: R) -> Self {
        Self { tasks, arrivals, one_in, rng }
    }
}

impl<A: Arrivals, R: Rng> Arrivals for HighTimes<'_, A, R> {
    fn next(&mut self, task: u32) -> Arrival {
        let arrival = self.arrivals.next(task);
        let high = self.tasks[task as usize].wcet_high().filter(|_| arrival.known < Instant::MAX);
        match high {
            Some(high) if self.one_in > 0 && self.rng.random_range(0..self.one_in) == 0 => {
                Arrival { exec_time: high, ..arrival }
            }
            _ => arrival,
        }
    }
}

pub(super) fn draw_up_to_wcet(task: &Task, rng: &mut impl Rng) -> Service {
    let wcet = task.wcet().as_nanos();
    let least = task.last_segment().as_nanos().max(1);
    Service::from_nanos(match rng.random_range(0..3) {
        0 => rng.random_range(least..=wcet),
        _ => wcet,
    })
}
