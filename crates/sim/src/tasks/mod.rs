//! Simulates tasks on one virtual processor, scheduled by the pure policy [`Jobs`].
//!
//! [`run`] is the plain case. [`run_in`] adds a [`Setting`]: the cost of switches, the availability
//! of the processor, and the places of yield points.

mod below;
mod machine;
mod yields;

use alloc::vec::Vec;

use punctual_model::{Instant, JobId, Task};
use punctual_policy::jobs::Jobs;
use punctual_trace::Sink;

use crate::arrivals::Arrivals;
use crate::overheads::{Costs, Free};
use crate::processor::{Processor, Whole};
use machine::Machine;

pub use below::Below;
pub use yields::{Eager, Seldom, Yields};

/// Runs the jobs of `tasks` that are known before `until` under `policy`, and sends events to
/// `sink`.
///
/// A job whose task has a quantum reaches a yield point each time it has run for a whole quantum
/// since it last got the CPU, which is as rarely as its contract allows. Once only its last segment
/// is left, it gives way no more. A task without a quantum is preempted at once. Switching costs
/// nothing.
///
/// Nothing arrives at or after `until`. Jobs released before run to their ends, so that a job that
/// an overload delays for long is seen to be late.
pub fn run(
    tasks: &[Task],
    policy: Jobs,
    arrivals: &mut impl Arrivals,
    until: Instant,
    sink: &mut impl Sink,
) {
    // A whole processor leaves nothing unfinished.
    let _ = run_in(Setting::default(), tasks, policy, arrivals, until, sink);
}

/// Runs like [`run`], but in `setting`. Returns the jobs that are not complete at the end of the
/// setting, task by task and oldest first. There are none if the processor is whole.
pub fn run_in<C: Costs, P: Processor, Y: Yields>(
    setting: Setting<C, P, Y>,
    tasks: &[Task],
    policy: Jobs,
    arrivals: &mut impl Arrivals,
    until: Instant,
    sink: &mut impl Sink,
) -> Vec<Unfinished> {
    let mut machine = Machine::new(setting, tasks, policy, until, arrivals);
    while machine.step(arrivals, sink) {}
    machine.unfinished()
}

/// A job that was known and is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The job.
    pub job: JobId,
    /// Its nominal release.
    pub release: Instant,
}

/// The conditions under which tasks run. By default switches are free, the processor is whole, and
/// yield points are as far apart as allowed.
#[derive(Clone, Debug)]
pub struct Setting<C = Free, P = Whole, Y = Seldom> {
    costs: C,
    processor: P,
    yields: Y,
    end: Instant,
}

impl Default for Setting {
    fn default() -> Self {
        Self { costs: Free, processor: Whole, yields: Seldom, end: Instant::MAX }
    }
}

impl<C, P, Y> Setting<C, P, Y> {
    /// Sets the costs of switches.
    pub fn costing<D: Costs>(self, costs: D) -> Setting<D, P, Y> {
        Setting { costs, processor: self.processor, yields: self.yields, end: self.end }
    }

    /// Sets the processor, watched until `end` at the latest, because a processor that is away for
    /// ever would keep the run from ending. A job that would complete at or after `end` stays
    /// unfinished.
    pub fn on<Q: Processor>(self, processor: Q, end: Instant) -> Setting<C, Q, Y> {
        Setting { costs: self.costs, processor, yields: self.yields, end }
    }

    /// Sets the places of yield points.
    pub fn yielding<Z: Yields>(self, yields: Z) -> Setting<C, P, Z> {
        Setting { costs: self.costs, processor: self.processor, yields, end: self.end }
    }
}

#[cfg(test)]
mod tests;
