//! Searches for a miss: sets without one are the upper bound.

use punctual_model::{Duration, Policy, Task};
use punctual_policy::jobs::Jobs;
use punctual_sim::witness::{Budget, search};
use punctual_trace::{Event, Kind, Sink};

/// The most jobs simulated for one set. All of them released at once, alone and with each blocker,
/// take far fewer; the rest goes into aligned deadlines.
const BUDGET: Budget = Budget { jobs: 5_000 };

/// Returns whether a search finds a schedule of `tasks`, in priority order, in which a job is late.
pub(super) fn finds_a_miss(policy: Policy, tasks: &[Task]) -> bool {
    search(tasks, &Jobs::of(policy, tasks, 0), BUDGET).is_some()
}

/// A sink that only records whether any job was late.
pub(super) struct Late {
    relative_deadlines: Vec<Duration>,
    pub(super) any: bool,
}

impl Late {
    pub(super) fn new(tasks: &[Task]) -> Self {
        Self { relative_deadlines: tasks.iter().map(Task::relative_deadline).collect(), any: false }
    }
}

impl Sink for Late {
    fn record(&mut self, Event { at, job, release, kind }: Event) {
        let deadline = release + self.relative_deadlines[job.task as usize];
        self.any |= kind == Kind::Complete && at > deadline;
    }
}
