//! Counts what was seen of jobs, for each thread and for each name of a thread.

use std::collections::{BTreeMap, VecDeque};

use punctual_model::Duration;
use punctual_trace::cause::Verdict;

use super::observed::JobEvent;

/// The number of recent jobs of an account whose wake-up latencies and response times are kept.
pub const RECENT: usize = 120;

/// The number of late jobs of an account that are kept.
pub const LATE_KEPT: usize = 20;

/// The account of jobs. Its memory is bounded, however many jobs there are.
#[derive(Clone, Debug, Default)]
pub struct JobAccount {
    /// The number of completed jobs.
    pub jobs: u64,
    /// The number of late ones.
    pub late: u64,
    /// The number of late ones by their main cause.
    pub causes: BTreeMap<&'static str, u64>,
    /// All wake-up latencies.
    pub wakeups: LatencyHistogram,
    /// The latest wake-up latencies, the newest last; at most [`RECENT`].
    pub latencies: VecDeque<Duration>,
    /// The latest response times, the newest last; at most [`RECENT`].
    pub response_times: VecDeque<Duration>,
    /// The latest late jobs with their causes, the newest first; at most [`LATE_KEPT`].
    pub late_jobs: VecDeque<Verdict>,
}

impl JobAccount {
    /// Counts an event.
    pub fn add(&mut self, job_event: &JobEvent) {
        match job_event {
            JobEvent::Began { wakeup_latency, .. } => {
                self.wakeups.add(*wakeup_latency);
                push(&mut self.latencies, *wakeup_latency);
            }
            JobEvent::Ended { response_time, late, .. } => {
                self.jobs += 1;
                push(&mut self.response_times, *response_time);
                if let Some(verdict) = late {
                    self.late += 1;
                    let cause = verdict.main().map_or("unknown", |share| share.cause.word());
                    *self.causes.entry(cause).or_default() += 1;
                    self.late_jobs.push_front((**verdict).clone());
                    self.late_jobs.truncate(LATE_KEPT);
                }
            }
        }
    }
}

fn push(to: &mut VecDeque<Duration>, time: Duration) {
    if to.len() >= RECENT {
        to.pop_front();
    }
    to.push_back(time);
}

/// A histogram of latencies, whose steps reach from a quiet host's wake-up to a full scheduler
/// cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyHistogram {
    /// The number of latencies in each step; the last is for latencies beyond all steps.
    pub counts: [u64; LatencyHistogram::STEPS_US.len() + 1],
    /// The sum of all latencies.
    pub sum: Duration,
}

impl LatencyHistogram {
    /// The upper bounds of the steps, in microseconds. A latency equal to a bound is within it.
    pub const STEPS_US: [u64; 14] = [
        10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 1_000_000,
    ];

    fn add(&mut self, latency: Duration) {
        let nanos = latency.as_nanos();
        let step = Self::STEPS_US.partition_point(|end| end * 1_000 < nanos);
        self.counts[step] += 1;
        self.sum = self.sum.saturating_add(latency);
    }
}

/// The accounts of watched threads by their names.
///
/// Names are chosen by the programs that make the threads. To bound the memory, only the first 64
/// names have accounts of their own; all others share one.
#[derive(Clone, Debug, Default)]
pub struct TaskAccounts {
    by_name: BTreeMap<String, JobAccount>,
    /// The name of each watched thread.
    names: BTreeMap<u32, String>,
}

/// The number of names with accounts of their own.
const MOST: usize = 64;

/// The name of the account for all further names.
const OTHERS: &str = "other tasks";

impl TaskAccounts {
    /// Sets the watched threads and their names from now on.
    pub fn set_names(&mut self, names: BTreeMap<u32, String>) {
        for name in names.values() {
            let _ = self.of(name);
        }
        self.names = names;
    }

    /// Counts an event, unless its thread is not watched.
    pub fn add(&mut self, job_event: &JobEvent) {
        let (JobEvent::Began { thread, .. } | JobEvent::Ended { thread, .. }) = job_event;
        if let Some(name) = self.names.get(thread).cloned() {
            self.of(&name).add(job_event);
        }
    }

    /// Returns each account with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &JobAccount)> {
        self.by_name.iter().map(|(name, account)| (name.as_str(), account))
    }

    fn of(&mut self, name: &str) -> &mut JobAccount {
        let is_known = self.by_name.contains_key(name);
        let own = is_known || self.by_name.len() < MOST;
        self.by_name.entry(if own { name } else { OTHERS }.to_owned()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::{Instant, JobId};
    use punctual_trace::cause::{LateJob, Share, Spent};

    fn began(thread: u32, us: u64) -> JobEvent {
        JobEvent::Began { thread, wakeup_latency: Duration::from_micros(us) }
    }

    fn ended(thread: u32) -> JobEvent {
        JobEvent::Ended { thread, response_time: Duration::from_millis(1), late: None }
    }

    fn late(response_us: u64) -> JobEvent {
        let at = |us: u64| Instant::from_nanos(us * 1_000);
        let job = LateJob {
            job: JobId { task: 7, index: 3 },
            release: at(0),
            absolute_deadline: at(1_000),
            end: at(response_us),
            wcet: None,
        };
        let took = job.tardiness();
        let share = Share { cause: Spent::Own, took, times: 1, longest_at: at(0), share: took };
        let verdict = Verdict { late: job, own: Duration::from_micros(1), shares: vec![share] };
        let response_time = Duration::from_micros(response_us);
        JobEvent::Ended { thread: 7, response_time, late: Some(Box::new(verdict)) }
    }

    #[test]
    fn an_account_is_bounded() {
        let mut account = JobAccount::default();
        for us in 0..1_000 {
            account.add(&began(7, us));
            account.add(&late(1_001 + us));
        }
        let kept = [account.latencies.len(), account.response_times.len(), account.late_jobs.len()];
        assert_eq!(kept, [RECENT, RECENT, LATE_KEPT]);
        assert_eq!(account.latencies.back(), Some(&Duration::from_micros(999)));
        assert_eq!((account.jobs, account.late), (1_000, 1_000));
        assert_eq!(account.late_jobs[0].late.tardiness(), Duration::from_micros(1_000));
    }

    #[test]
    fn a_latency_at_the_end_of_a_step_is_within_it() {
        let mut histogram = LatencyHistogram::default();
        for us in [10, 11, 25, 1_000_000, 1_000_001] {
            histogram.add(Duration::from_micros(us));
        }
        let mut expected = [0; LatencyHistogram::STEPS_US.len() + 1];
        (expected[0], expected[1], expected[13], expected[14]) = (1, 2, 1, 1);
        assert_eq!(histogram.counts, expected);
        assert_eq!(histogram.sum, Duration::from_micros(2_000_047));
    }

    #[test]
    fn threads_of_a_name_share_an_account_and_unwatched_threads_have_none() {
        let mut tasks = TaskAccounts::default();
        tasks
            .set_names([(1, "a"), (2, "b"), (3, "a")].map(|(tid, name)| (tid, name.into())).into());
        for thread in [1, 2, 3, 3, 4] {
            tasks.add(&ended(thread));
        }
        // The thread is renamed; its earlier jobs stay in their account.
        tasks.set_names(BTreeMap::from([(3, "c".into())]));
        tasks.add(&ended(3));
        let jobs: Vec<_> = tasks.iter().map(|(name, task)| (name.to_owned(), task.jobs)).collect();
        let expected = [("a", 3), ("b", 1), ("c", 1)];
        assert_eq!(jobs, expected.map(|(name, jobs)| (name.to_owned(), jobs)));
    }

    #[test]
    fn names_beyond_the_first_share_an_account() {
        let mut tasks = TaskAccounts::default();
        for n in 0..1_000 {
            tasks.set_names(BTreeMap::from([(n, format!("name-{n}"))]));
            tasks.add(&ended(n));
        }
        assert_eq!(tasks.iter().count(), MOST + 1);
        let (_, others) = tasks.iter().find(|(name, _)| *name == OTHERS).expect("there are more");
        assert_eq!(others.jobs, 1_000 - MOST as u64);
        assert_eq!(tasks.iter().map(|(_, task)| task.jobs).sum::<u64>(), 1_000);
    }
}
