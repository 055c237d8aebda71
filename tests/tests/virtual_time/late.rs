//! Counts jobs and late jobs only: a histogram would be most of the work.

use punctual_model::{Duration, Task};
use punctual_trace::{Event, Kind, Sink};

/// The counts so far.
pub(crate) struct Late {
    relative_deadlines: Vec<Duration>,
    /// The number of completed jobs.
    pub(crate) jobs: u64,
    /// The number of jobs that completed after their deadline.
    pub(crate) late: u64,
}

impl Late {
    /// Returns zero counts for `tasks`.
    pub(crate) fn new(tasks: &[Task]) -> Self {
        let relative_deadlines = tasks.iter().map(Task::relative_deadline).collect();
        Self { relative_deadlines, jobs: 0, late: 0 }
    }
}

impl Sink for Late {
    fn record(&mut self, event: Event) {
        if event.kind == Kind::Complete {
            let deadline = event.release + self.relative_deadlines[event.job.task as usize];
            self.jobs += 1;
            self.late += u64::from(event.at > deadline);
        }
    }
}
