//! Models the processor time that more urgent tasks leave.

use punctual_model::{Instant, Task};
use punctual_policy::jobs::Jobs;
use punctual_trace::Sink;

use super::machine::Machine;
use super::{Seldom, Setting};
use crate::arrivals::Arrivals;
use crate::overheads::Costs;
use crate::processor::{Processor, Stretch};

/// The processor of other tasks, while none of them has a job. Their jobs run as time advances to
/// them, and no job below delays them.
pub struct Below<'a, C, P, A, S> {
    machine: Machine<'a, C, P, Seldom>,
    arrivals: A,
    sink: S,
}

impl<'a, C: Costs, P: Processor, A: Arrivals, S: Sink> Below<'a, C, P, A, S> {
    /// Leaves the time that `tasks` leave, which run as in [`super::run_in`].
    pub fn new(
        setting: Setting<C, P, Seldom>,
        tasks: &'a [Task],
        policy: Jobs,
        mut arrivals: A,
        until: Instant,
        sink: S,
    ) -> Self {
        let machine = Machine::new(setting, tasks, policy, until, &mut arrivals);
        Self { machine, arrivals, sink }
    }

    /// Runs the remaining jobs to their ends.
    pub fn finish(&mut self) {
        while self.machine.step(&mut self.arrivals, &mut self.sink) {}
    }
}

impl<C: Costs, P: Processor, A: Arrivals, S: Sink> Processor for Below<'_, C, P, A, S> {
    const WHOLE: bool = false;

    fn at(&mut self, now: Instant, _: bool) -> Stretch {
        while self.machine.next().is_some_and(|next| next <= now) {
            self.machine.step(&mut self.arrivals, &mut self.sink);
        }
        self.machine.left_over(now)
    }

    fn preempts(&self) -> bool {
        self.machine.busy()
    }
}
