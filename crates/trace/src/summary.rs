//! What a run amounted to, task by task, computed from its events as they come.

use alloc::vec::Vec;

use punctual_model::{Backlog, Duration, Instant, Task};

use crate::event::{Event, Kind, Sink};
use crate::times::Times;

/// The jobs of one task.
#[derive(Clone, Debug, Default)]
pub struct TaskSummary {
    /// Jobs that are complete.
    pub jobs: u64,
    /// Jobs released before the end of the run and not complete then.
    pub unfinished: u64,
    /// Jobs that completed after their absolute deadline, or were unfinished after it.
    pub late: u64,
    /// How often a job gave way.
    pub gave_way: u64,
    /// The longest that a job completed after its deadline.
    pub max_tardiness: Duration,
    /// From a job's release to its first instruction; of one that never began, to the end of the
    /// run, so that the worst are not left out for being too bad.
    pub wakeup_latency: Times,
    /// From a job's release to its completion.
    pub response_time: Times,
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

    /// The run ended at `end` with these jobs released and not complete.
    ///
    /// # Panics
    /// If the backlog names a task that the summary was not made for.
    pub fn end(&mut self, end: Instant, backlog: Backlog) {
        let task = backlog.oldest.task as usize;
        let relative_deadline = self.relative_deadlines[task];
        let summary = &mut self.tasks[task];
        summary.unfinished += backlog.jobs;
        for job in 0..backlog.jobs {
            let release = backlog.release + backlog.period * job;
            if job > 0 || !backlog.begun {
                summary.wakeup_latency.record(end.saturating_since(release));
            }
            let deadline = release.saturating_add(relative_deadline);
            if end > deadline {
                summary.late += 1;
                summary.max_tardiness = summary.max_tardiness.max(end - deadline);
            }
        }
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
        let end = Instant::from_nanos(45_000_000);
        let oldest = JobId { task: 0, index: 2 };
        let (release, period) = (Instant::from_nanos(20_000_000), Duration::from_millis(10));
        let mut left = summary.clone();
        left.end(end, Backlog { oldest, release, period, jobs: 3, begun: true });
        // Released at 20, 30 and 40 ms: at 45 ms the deadlines of the first two have passed.
        assert_eq!((left.tasks()[0].unfinished, left.tasks()[0].late), (3, 3));
        assert_eq!(left.tasks()[0].wakeup_latency.max(), Some(Duration::from_millis(15)));
        let task = &summary.tasks()[0];
        assert_eq!((task.jobs, task.late), (2, 1));
        assert_eq!(task.max_tardiness, Duration::from_nanos(1));
        assert_eq!(task.wakeup_latency.max(), Some(Duration::from_micros(5)));
    }
}
