//! Watched threads: their jobs and their use of processor time.

use std::collections::BTreeMap;

use punctual_linux::clock;
use punctual_model::{Duration, Instant, Service};
use punctual_observe::followed::Tree;
use punctual_observe::{Counts, followed};
use punctual_trace::Promise;
use serde::Serialize;

use super::account::{JobAccount, TaskAccounts};
use super::observed::{JobEvent, Observed, WatchedThread};

/// Observes the jobs of threads and keeps their accounts.
pub struct Jobs {
    /// The error is a sentence.
    observed: Result<Observed, String>,
    threads: BTreeMap<u32, ThreadJobs>,
    tasks: TaskAccounts,
}

/// The jobs of the watched threads, as counted so far.
#[derive(Clone, Debug)]
pub struct JobsState {
    /// The counts of kernel records, or the reason why jobs are not observed.
    pub counts: Result<Counts, String>,
    /// The watched threads, by their ids.
    pub threads: BTreeMap<u32, ThreadJobs>,
    /// The accounts by names of threads, which stay when the threads have ended.
    pub tasks: TaskAccounts,
}

/// The jobs of a thread.
#[derive(Clone, Debug, Default)]
pub struct ThreadJobs {
    /// Its current name; `None` if it has ended.
    pub name: Option<String>,
    /// The promise it is held to.
    pub promise: Promise,
    /// Its account since it was first watched; `None` if jobs are not observed.
    pub account: Option<JobAccount>,
}

impl ThreadJobs {
    /// Returns the number of its late jobs; `None` if they are not observed or it has no deadline.
    pub fn late(&self) -> Option<u64> {
        self.promise.relative_deadline?;
        Some(self.account.as_ref()?.late)
    }

    /// Returns the slack of the tightest recent job in nanoseconds, which is negative if it was
    /// late; `None` without a deadline or without a job.
    pub fn slack_ns(&self) -> Option<i64> {
        let longest = *self.account.as_ref()?.response_times.iter().max()?;
        let slack =
            i128::from(self.promise.relative_deadline?.as_nanos()) - i128::from(longest.as_nanos());
        Some(i64::try_from(slack).unwrap_or(if slack < 0 { i64::MIN } else { i64::MAX }))
    }
}

impl Jobs {
    /// Starts to observe, watching no thread yet. If the kernel's records are unavailable, the
    /// states say why.
    pub fn start() -> Self {
        let observed = Observed::start().map_err(|why| why.to_string());
        Self { observed, threads: BTreeMap::new(), tasks: TaskAccounts::default() }
    }

    /// Collects the kernel's records. Must be called at least ten times a second.
    pub fn collect(&mut self) {
        let Ok(observed) = &mut self.observed else { return };
        for job_event in observed.turn() {
            let (JobEvent::Began { thread, .. } | JobEvent::Ended { thread, .. }) = job_event;
            if let Some(ThreadJobs { account: Some(account), .. }) = self.threads.get_mut(&thread) {
                account.add(&job_event);
            }
            self.tasks.add(&job_event);
        }
    }

    /// Watches exactly these threads from now on, each held to its promise. Threads among
    /// `enforcers` stop others when their budgets are exhausted, and resume them.
    pub fn watch(&mut self, threads: &BTreeMap<u32, Promise>, enforcers: &[u32]) {
        self.threads.retain(|thread, _| threads.contains_key(thread));
        for (&thread, &promise) in threads {
            let watched = self.threads.entry(thread).or_default();
            // The thread may be executing another program by now.
            (watched.name, watched.promise) = (followed::name(thread), promise);
            if self.observed.is_ok() {
                watched.account.get_or_insert_default();
            }
        }
        let names = self.threads.iter();
        let names = names.filter_map(|(&thread, watched)| Some((thread, watched.name.clone()?)));
        if let Ok(observed) = &mut self.observed {
            self.tasks.set_names(names.collect());
            let targets = threads.iter();
            let targets: Vec<WatchedThread> =
                targets.map(|(&thread, &promise)| WatchedThread { thread, promise }).collect();
            observed.watch(&targets);
            observed.enforcers(enforcers.iter().copied());
        }
    }

    /// Returns everything counted so far.
    pub fn state(&self) -> JobsState {
        JobsState {
            counts: self.observed.as_ref().map(Observed::counts).map_err(Clone::clone),
            threads: self.threads.clone(),
            tasks: self.tasks.clone(),
        }
    }
}

/// A thread of a watched process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadState {
    /// Its process.
    pub process: u32,
    /// Its own id.
    pub thread: u32,
    /// Its name; `None` if it has ended.
    pub name: Option<String>,
    /// Its use of a CPU over about the last second, in parts per million; `None` before the first
    /// second is over.
    pub used_ppm: Option<u64>,
}

/// The shortest window over which use is measured.
const WINDOW: Duration = Duration::from_millis(900);

/// The recent use of each thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses {
    by_thread: BTreeMap<u32, Use>,
}

#[derive(Clone, Copy, Debug)]
struct Use {
    since: Instant,
    used: Service,
    ppm: Option<u64>,
}

impl Uses {
    /// Returns the state of each thread.
    pub(super) fn of(&mut self, tree: &Tree) -> Vec<ThreadState> {
        let now = clock::now();
        self.by_thread.retain(|thread, _| tree.threads.iter().any(|(_, one)| one == thread));
        let states = tree.threads.iter().map(|&(process, thread)| ThreadState {
            process,
            thread,
            name: followed::name(thread),
            used_ppm: self.of_thread(process, thread, now),
        });
        states.collect()
    }

    /// Returns the use in parts per million of a CPU, or `None` before the first window is over.
    fn of_thread(&mut self, process: u32, thread: u32, now: Instant) -> Option<u64> {
        let used = followed::used(process, thread)?;
        let known = self.by_thread.entry(thread).or_insert(Use { since: now, used, ppm: None });
        let length = now.saturating_since(known.since);
        if length >= WINDOW {
            let more = u128::from(used.saturating_sub(known.used).as_nanos()) * 1_000_000;
            let ppm = u64::try_from(more / u128::from(length.as_nanos())).ok();
            *known = Use { since: now, used, ppm };
        }
        known.ppm
    }
}
