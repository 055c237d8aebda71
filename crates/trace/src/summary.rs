//! Summarizes a run task by task, from its events as they come.

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
    /// Jobs that completed after their absolute deadline, or were unfinished, skipped or aborted
    /// when it had passed, or were contained.
    pub late: u64,
    /// Jobs that were not complete at their absolute deadline and resumed later or were still
    /// running.
    pub overruns: u64,
    /// Jobs that never began, because their upcall skips late jobs, or was suspended or closed.
    pub skipped: u64,
    /// Jobs that had begun and were ended incomplete at a yield point.
    pub aborted: u64,
    /// Jobs whose thread was set aside because they did not reach a yield point in time.
    pub contained: u64,
    /// The number of times that a job gave way.
    pub gave_way: u64,
    /// The greatest tardiness of a complete job.
    pub max_tardiness: Duration,
    /// The times from a job's release to its first instruction. For a job that never began, the
    /// time to the end of the run counts, so that the worst cases are not left out.
    pub wakeup_latency: Times,
    /// The times from a job's release to its completion.
    pub response_time: Times,
}

/// The summary of a run, task by task, in the order in which the tasks were given. A task that is
/// known only from its events has no deadline until [`Summary::declare`] sets one.
#[derive(Clone, Debug)]
pub struct Summary {
    relative_deadlines: Vec<Duration>,
    tasks: Vec<TaskSummary>,
}

impl Summary {
    /// Makes an empty summary of a run of `tasks`.
    pub fn new<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> Self {
        let relative_deadlines: Vec<_> = tasks.into_iter().map(Task::relative_deadline).collect();
        let tasks = relative_deadlines.iter().map(|_| TaskSummary::default()).collect();
        Self { relative_deadlines, tasks }
    }

    /// Sets the relative deadline of the task at position `task`, for tasks that join or change
    /// during the run. It applies to the jobs of later events.
    ///
    /// ```
    /// use punctual_model::Duration;
    /// use punctual_trace::Summary;
    ///
    /// let mut summary = Summary::new([]);
    /// summary.declare(3, Duration::from_millis(20));
    /// assert_eq!(summary.tasks().len(), 4);
    /// ```
    pub fn declare(&mut self, task: u32, relative_deadline: Duration) {
        let (_, declared) = self.of(task);
        *declared = relative_deadline;
    }

    /// Returns the summary and the relative deadline of a task, and adds the task if it is new.
    fn of(&mut self, task: u32) -> (&mut TaskSummary, &mut Duration) {
        let task = task as usize;
        if self.tasks.len() <= task {
            self.tasks.resize_with(task + 1, TaskSummary::default);
            self.relative_deadlines.resize(task + 1, Duration::MAX);
        }
        (&mut self.tasks[task], &mut self.relative_deadlines[task])
    }

    /// Returns the summary of each task.
    pub fn tasks(&self) -> &[TaskSummary] {
        &self.tasks
    }

    /// Returns the number of late jobs of all tasks.
    pub fn late(&self) -> u64 {
        self.tasks.iter().map(|task| task.late).sum()
    }

    /// Returns the number of complete jobs of all tasks.
    pub fn jobs(&self) -> u64 {
        self.tasks.iter().map(|task| task.jobs).sum()
    }

    /// Ends the run at `end` with these jobs released and not complete.
    pub fn end(&mut self, end: Instant, backlog: Backlog) {
        let (summary, relative_deadline) = self.of(backlog.oldest.task);
        summary.unfinished += backlog.jobs;
        for job in 0..backlog.jobs {
            let release = backlog.release + backlog.period * job;
            if job > 0 || !backlog.begun {
                summary.wakeup_latency.record(end.saturating_since(release));
            }
            let deadline = release.saturating_add(*relative_deadline);
            if end > deadline {
                summary.late += 1;
                summary.max_tardiness = summary.max_tardiness.max(end - deadline);
            }
        }
    }
}

impl Sink for Summary {
    fn record(&mut self, event: Event) {
        let Event { at, job, release, kind } = event;
        let (summary, relative_deadline) = self.of(job.task);
        let deadline = release.saturating_add(*relative_deadline);
        let response_time = at.saturating_since(release);
        match kind {
            Kind::Start => summary.wakeup_latency.record(response_time),
            Kind::GiveWay => summary.gave_way += 1,
            Kind::Resume | Kind::Replenish { .. } | Kind::Throttle { .. } | Kind::Unthrottle => {}
            Kind::Complete => {
                summary.jobs += 1;
                // A job that completes exactly at its deadline is in time.
                if at > deadline {
                    summary.late += 1;
                    summary.max_tardiness = summary.max_tardiness.max(at - deadline);
                }
                summary.response_time.record(response_time);
            }
            Kind::Overrun { jobs } => summary.overruns += jobs,
            Kind::Skip { jobs } => {
                summary.skipped += jobs;
                // The jobs are released one relative deadline apart. Those that are due by now are
                // late.
                let period = relative_deadline.as_nanos().max(1);
                summary.late += jobs.min(response_time.as_nanos() / period);
            }
            Kind::Abort => {
                summary.aborted += 1;
                summary.late += u64::from(at >= deadline);
            }
            Kind::Contained => {
                summary.contained += 1;
                summary.late += 1;
            }
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

    #[test]
    fn dropped_jobs_are_late_once_their_deadline_has_passed() {
        let mut summary = Summary::new([]);
        summary.declare(1, Duration::from_millis(10));
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let job = JobId { task: 1, index: 0 };
        let mut event = |ms, kind| summary.record(Event { at: at(ms), job, release: at(0), kind });
        event(35, Kind::Overrun { jobs: 3 });
        event(35, Kind::Skip { jobs: 4 });
        event(9, Kind::Abort);
        event(10, Kind::Abort);
        event(5, Kind::Contained);
        assert_eq!(summary.tasks()[0].jobs, 0);
        let task = &summary.tasks()[1];
        assert_eq!((task.overruns, task.skipped, task.aborted, task.contained), (3, 4, 2, 1));
        assert_eq!(task.late, 3 + 1 + 1);
    }
}
