//! Accounts of watched threads, by the names of their tasks.
//!
//! Names are chosen by the programs that make the threads. To keep a program from filling a
//! database with them, only the first [`MOST`] names have accounts of their own; all others share
//! one.

use std::collections::BTreeMap;

use punctual_model::Duration;

use crate::watch::observed::JobEvent;

/// The number of names with accounts of their own.
const MOST: usize = 64;

/// The name of the account for all further names.
const OTHERS: &str = "other tasks";

/// The upper bounds of a histogram's buckets, in microseconds: from a quiet host's wake-up to a
/// full scheduler cycle.
pub(super) const STEPS_US: [u64; 14] =
    [10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 1_000_000];

/// All causes, so that each starts at zero instead of being absent.
const CAUSES: [&str; 12] = [
    "own",
    "task",
    "hard-interrupt",
    "softirq",
    "late-timer",
    "throttled-by-kernel",
    "throttled",
    "page-fault",
    "blocked",
    "stolen",
    "switching",
    "unknown",
];

/// The jobs of all threads of one name.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// The number of completed jobs.
    pub(super) jobs: u64,
    /// The number of late ones, by their main cause.
    pub(super) misses: BTreeMap<&'static str, u64>,
    /// The number of wake-up latencies in each bucket; the last is for latencies beyond all bounds.
    pub(super) latencies: [u64; STEPS_US.len() + 1],
    /// The sum of all wake-up latencies.
    pub(super) latency: Duration,
}

impl Task {
    fn new() -> Self {
        Self {
            jobs: 0,
            misses: CAUSES.into_iter().map(|cause| (cause, 0)).collect(),
            latencies: [0; STEPS_US.len() + 1],
            latency: Duration::ZERO,
        }
    }

    fn add(&mut self, job_event: &JobEvent) {
        match job_event {
            JobEvent::Began { wakeup_latency, .. } => {
                let nanos = wakeup_latency.as_nanos();
                // A latency equal to a bucket's bound belongs to it (`le`).
                let step = STEPS_US.partition_point(|end| end * 1_000 < nanos);
                self.latencies[step] += 1;
                self.latency = self.latency.saturating_add(*wakeup_latency);
            }
            JobEvent::Ended { late, .. } => {
                self.jobs += 1;
                if let Some(verdict) = late {
                    let cause = verdict.main().map_or("unknown", |share| share.cause.word());
                    *self.misses.entry(cause).or_default() += 1;
                }
            }
        }
    }
}

/// All tasks.
#[derive(Clone, Debug, Default)]
pub(super) struct Tasks {
    by_name: BTreeMap<String, Task>,
    /// The name of each watched thread.
    names: BTreeMap<u32, String>,
}

impl Tasks {
    /// Sets the watched threads and their names from now on.
    pub(super) fn called(&mut self, names: BTreeMap<u32, String>) {
        for name in names.values() {
            let _ = self.of(name);
        }
        self.names = names;
    }

    /// Counts what a thread did, unless it is not watched.
    pub(super) fn add(&mut self, job_event: &JobEvent) {
        let (JobEvent::Began { thread, .. } | JobEvent::Ended { thread, .. }) = job_event;
        if let Some(name) = self.names.get(thread).cloned() {
            self.of(&name).add(job_event);
        }
    }

    /// Returns each task with its name.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &Task)> {
        self.by_name.iter().map(|(name, task)| (name.as_str(), task))
    }

    fn of(&mut self, name: &str) -> &mut Task {
        let is_known = self.by_name.contains_key(name);
        let own = is_known || self.by_name.len() < MOST;
        self.by_name.entry(if own { name } else { OTHERS }.to_owned()).or_insert_with(Task::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn began(thread: u32, us: u64) -> JobEvent {
        JobEvent::Began { thread, wakeup_latency: Duration::from_micros(us) }
    }

    fn ended(thread: u32) -> JobEvent {
        JobEvent::Ended { thread, response_time: Duration::from_millis(1), late: None }
    }

    #[test]
    fn a_latency_at_the_end_of_a_step_is_within_it() {
        let mut tasks = Tasks::default();
        tasks.called(BTreeMap::from([(1, "a".into())]));
        for us in [10, 11, 25, 1_000_000, 1_000_001] {
            tasks.add(&began(1, us));
        }
        let (_, task) = tasks.all().next().expect("a");
        let mut expected = [0; STEPS_US.len() + 1];
        (expected[0], expected[1], expected[13], expected[14]) = (1, 2, 1, 1);
        assert_eq!(task.latencies, expected);
        assert_eq!(task.latency, Duration::from_micros(2_000_047));
    }

    #[test]
    fn threads_of_a_name_are_one_task_and_strangers_are_none() {
        let mut tasks = Tasks::default();
        tasks.called([(1, "a"), (2, "b"), (3, "a")].map(|(tid, name)| (tid, name.into())).into());
        for thread in [1, 2, 3, 3, 4] {
            tasks.add(&ended(thread));
        }
        // The thread is renamed; its earlier jobs stay in their account.
        tasks.called(BTreeMap::from([(3, "c".into())]));
        tasks.add(&ended(3));
        let jobs: Vec<_> = tasks.all().map(|(name, task)| (name.to_owned(), task.jobs)).collect();
        let expected = [("a", 3), ("b", 1), ("c", 1)];
        assert_eq!(jobs, expected.map(|(name, jobs)| (name.to_owned(), jobs)));
    }

    #[test]
    fn names_beyond_the_first_share_an_account() {
        let mut tasks = Tasks::default();
        for n in 0..1_000 {
            tasks.called(BTreeMap::from([(n, format!("name-{n}"))]));
            tasks.add(&ended(n));
        }
        assert_eq!(tasks.all().count(), MOST + 1);
        let (_, others) = tasks.all().find(|(name, _)| *name == OTHERS).expect("there are more");
        assert_eq!(others.jobs, 1_000 - MOST as u64);
        assert_eq!(tasks.all().map(|(_, task)| task.jobs).sum::<u64>(), 1_000);
    }
}
