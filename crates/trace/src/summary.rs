//! What a run amounted to, task by task, computed from its events as they come.

use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Task};

use crate::event::{Event, Kind, Sink};
use crate::latencies::Latencies;

/// The jobs of one task.
#[derive(Clone, Debug, Default)]
pub struct TaskSummary {
    /// Jobs that are complete.
    pub jobs: u64,
    /// Of those, the jobs that completed after their absolute deadline.
    pub late: u64,
    /// How often a job gave way.
    pub gave_way: u64,
    /// The longest that a job completed after its deadline.
    pub max_tardiness: Duration,
    /// From a job's release to its first instruction.
    pub wakeup_latency: Latencies,
    /// From a job's release to its completion.
    pub response_time: Latencies,
}

/// A run, task by task, in the order the tasks were given.
#[derive(Clone, Debug)]
pub struct Summary {
    relative_deadlines: Vec<Duration>,
    tasks: Vec<TaskSummary>,
}

impl Summary {
    /// An empty summary of a run of `tasks`.
    pub fn new<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> Self {
        let relative_deadlines: Vec<_> = tasks.into_iter().map(Task::relative_deadline).collect();
        let tasks = relative_deadlines.iter().map(|_| TaskSummary::default()).collect();
        Self { relative_deadlines, tasks }
    }

    /// What is known of each task.
    pub fn tasks(&self) -> &[TaskSummary] {
        &self.tasks
    }

    /// Late jobs of all tasks.
    pub fn late(&self) -> u64 {
        self.tasks.iter().map(|task| task.late).sum()
    }

    /// Complete jobs of all tasks.
    pub fn jobs(&self) -> u64 {
        self.tasks.iter().map(|task| task.jobs).sum()
    }

    fn complete(&mut self, task: usize, release: Instant, at: Instant) {
        let deadline = release.saturating_add(self.relative_deadlines[task]);
        let summary = &mut self.tasks[task];
        summary.jobs += 1;
        // Complete exactly at the deadline is in time.
        if at > deadline {
            summary.late += 1;
            summary.max_tardiness = summary.max_tardiness.max(at - deadline);
        }
        summary.response_time.record(at.saturating_since(release));
    }
}

/// # Panics
/// If an event names a task that the summary was not made for.
impl Sink for Summary {
    fn record(&mut self, event: Event) {
        let Event { at, job, release, kind } = event;
        let task = job.task as usize;
        match kind {
            Kind::Start => {
                self.tasks[task].wakeup_latency.record(at.saturating_since(release));
            }
            Kind::GiveWay => self.tasks[task].gave_way += 1,
            Kind::Resume => {}
            Kind::Complete => self.complete(task, release, at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::{JobId, Service, TaskSpec};

    #[test]
    fn a_job_is_late_only_after_its_deadline() {
        let task =
            Task::new(TaskSpec::periodic("a", Duration::from_millis(10), Service::from_millis(1)))
                .expect("valid");
        let mut summary = Summary::new([&task]);
        for (index, completion) in [(0u64, 10_000_000u64), (1, 20_000_001)] {
            let job = JobId { task: 0, index };
            let release = Instant::from_nanos(index * 10_000_000);
            for (kind, at) in [
                (Kind::Start, release + Duration::from_micros(5)),
                (Kind::Complete, Instant::from_nanos(completion)),
            ] {
                summary.record(Event { at, job, release, kind });
            }
        }
        let task = &summary.tasks()[0];
        assert_eq!((task.jobs, task.late), (2, 1));
        assert_eq!(task.max_tardiness, Duration::from_nanos(1));
        assert_eq!(task.wakeup_latency.max(), Some(Duration::from_micros(5)));
    }
}
