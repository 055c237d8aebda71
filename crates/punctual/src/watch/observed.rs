//! Watches running threads: the starts and ends of their jobs, and the causes of late ones.
//!
//! Each thread has a promise of its own, and the set of threads may change at every look. Results
//! are passed on as they occur and not kept, so a watch may last any time.

use std::collections::BTreeMap;

use punctual_model::{Duration, Instant};
use punctual_observe::{Came, CollectError, Counts, Threads};
use punctual_trace::cause::{LateJob, Verdict, judge};
use punctual_trace::{Event, Kind, Promise};

/// The number of stretches remembered for each thread, because a late job is judged when it has
/// ended.
const REMEMBERED: usize = 1024;

/// A thread to be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WatchedThread {
    /// Its kernel id.
    pub(super) thread: u32,
    /// The promise it is held to.
    pub(super) promise: Promise,
}

/// An event of a watched thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEvent {
    /// A job began to run.
    Began {
        /// The job's thread.
        thread: u32,
        /// The time from its release to its first instruction.
        wakeup_latency: Duration,
    },
    /// A job was completed.
    Ended {
        /// The job's thread.
        thread: u32,
        /// The time from its release to its completion.
        response_time: Duration,
        /// The causes of its tardiness, if it was late.
        late: Option<Box<Verdict>>,
    },
}

/// The state of a thread between two records.
struct Watched {
    promise: Promise,
    /// The release of its job that has not run yet.
    waits: Option<Instant>,
}

/// Observes threads. Call [`Self::turn`] at least ten times a second.
pub(super) struct Observed {
    watched: Threads,
    threads: BTreeMap<u32, Watched>,
    /// Threads missing at the last look. Their last records may still arrive.
    gone: Vec<u32>,
}

impl Observed {
    /// Starts to collect, watching no thread yet.
    ///
    /// # Errors
    /// Returns [`CollectError`] if the kernel's records are unavailable, with a remedy.
    pub(super) fn start() -> Result<Self, CollectError> {
        let watched = Threads::start(REMEMBERED)?;
        Ok(Self { watched, threads: BTreeMap::new(), gone: Vec::new() })
    }

    /// Declares threads that stop others when their budgets are exhausted, and resume them.
    pub(super) fn enforcers(&mut self, threads: impl IntoIterator<Item = u32>) {
        threads.into_iter().for_each(|thread| self.watched.enforcer(thread));
    }

    /// Watches exactly these threads from now on.
    pub(super) fn watch(&mut self, targets: &[WatchedThread]) {
        for thread in std::mem::take(&mut self.gone) {
            // The thread, or another with its id, may have come back.
            if !targets.iter().any(|target| target.thread == thread) {
                self.forget(thread);
            }
        }
        let wanted: BTreeMap<u32, Promise> =
            targets.iter().map(|target| (target.thread, target.promise)).collect();
        self.gone = self.threads.keys().copied().filter(|one| !wanted.contains_key(one)).collect();
        for (thread, promise) in wanted {
            if let Some(known) = self.threads.get_mut(&thread) {
                known.promise = promise;
                continue;
            }
            self.watched.watch(thread, thread);
            self.threads.insert(thread, Watched { promise, waits: None });
        }
    }

    /// Returns what happened since the last call, in order.
    pub(super) fn turn(&mut self) -> Vec<JobEvent> {
        let mut came = Vec::new();
        self.watched.drain(|one| came.push(one));
        came.into_iter().filter_map(|one| self.take(one)).collect()
    }

    /// Returns the counts of kernel records.
    pub(super) fn counts(&self) -> Counts {
        self.watched.counts()
    }

    fn take(&mut self, came: Came) -> Option<JobEvent> {
        match came {
            Came::Event(event) => self.event(event),
            Came::OnCpu { thread, at } => {
                let release = self.threads.get_mut(&thread)?.waits.take()?;
                let wakeup_latency = at.saturating_since(release);
                Some(JobEvent::Began { thread, wakeup_latency })
            }
            Came::Unseen { thread, .. } => {
                self.threads.get_mut(&thread)?.waits = None;
                None
            }
            Came::Gap { .. } => {
                self.threads.values_mut().for_each(|thread| thread.waits = None);
                None
            }
            // Every wake-up is a release here.
            Came::Release { .. } | Came::Unknown { .. } => None,
        }
    }

    /// Handles an event. Its subject's number is the thread's id, as [`Self::watch`] registered it.
    fn event(&mut self, event: Event) -> Option<JobEvent> {
        let Event { at, job, release, kind } = event;
        let thread = job.task;
        let watched = self.threads.get_mut(&thread)?;
        match kind {
            Kind::Start => {
                watched.waits = Some(release);
                None
            }
            Kind::Complete => {
                let Promise { relative_deadline, wcet, .. } = watched.promise;
                let deadline = relative_deadline.map(|by| release.saturating_add(by));
                let late = deadline.filter(|deadline| at > *deadline).map(|absolute_deadline| {
                    let late = LateJob { job, release, absolute_deadline, end: at, wcet };
                    let stretches = self.watched.stretches(thread, release, at);
                    Box::new(judge(late, &stretches, |tid| self.threads.contains_key(&tid)))
                });
                let response_time = at.saturating_since(release);
                Some(JobEvent::Ended { thread, response_time, late })
            }
            _ => None,
        }
    }

    fn forget(&mut self, thread: u32) {
        self.threads.remove(&thread);
        // Its last job ends with the thread and is not reported.
        self.watched.forget(thread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_linux::clock;
    use std::process::{Command, Stdio};

    /// A child that sleeps again and again has jobs. With an impossible deadline each job is late,
    /// and its shares add up.
    #[test]
    fn jobs_of_a_thread_are_seen_and_late_ones_have_causes() {
        let mut observed = match Observed::start() {
            Ok(observed) => observed,
            Err(why) => return println!("skipped: {why}"),
        };
        let mut command = Command::new("sh");
        command.args(["-c", "while read line; do echo again; done"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        punctual_linux::process::die_with_parent(&mut command);
        let mut child = command.spawn().expect("sh");
        let mut input = child.stdin.take().expect("piped");
        // The call in which its jobs end is the first in which it is seen to wait. Some rounds first,
        // so that all its pages are there: a wait for one of them is no end of a job.
        let output = child.stdout.as_mut().expect("piped");
        for _ in 0..20 {
            std::io::Write::write_all(&mut input, b"go on\n").expect("it reads");
            std::io::Read::read_exact(output, &mut [0; 6]).expect("it answers");
        }
        let relative_deadline = Some(Duration::from_nanos(1));
        let promise = Promise { period: None, relative_deadline, wcet: None };
        observed.watch(&[WatchedThread { thread: child.id(), promise }]);
        let (mut began, mut late) = (0, Vec::new());
        for _ in 0..1_000 {
            std::io::Write::write_all(&mut input, b"go on\n").expect("it reads");
            clock::sleep(Duration::from_millis(10));
            for job_event in observed.turn() {
                match job_event {
                    JobEvent::Began { .. } => began += 1,
                    JobEvent::Ended { late: why, .. } => late.extend(why),
                }
            }
            if began >= 3 && late.len() >= 3 {
                break;
            }
        }
        drop(input);
        child.wait().expect("ended");
        assert!(began >= 3 && late.len() >= 3, "{began} began, {} late", late.len());
        for verdict in late {
            let shares = verdict.shares.iter().map(|one| one.share);
            let all = shares.fold(Duration::ZERO, Duration::saturating_add);
            assert_eq!(all, verdict.late.tardiness(), "{verdict:?}");
        }
        observed.watch(&[]);
        observed.watch(&[]);
        assert!(observed.threads.is_empty());
    }
}
