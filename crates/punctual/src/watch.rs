//! Watches what runs on this host: the broker's grants and channels, and the jobs of threads.
//!
//! - [`BrokerState`]: the broker's answer, which is also what `punctual status` shows.
//! - [`JobEvent`]: the start or the end of a job as the kernel reports it.
//! - [`JobAccount`], [`TaskAccounts`]: the counts of jobs, for a thread and for each name.
//! - [`Jobs`]: observes threads and keeps their accounts.
//! - [`Watcher`]: all of this at regular intervals, as [`HostState`], which can be serialised.

mod account;
mod broker;
mod json;
mod observed;
mod threads;

use std::collections::BTreeMap;
use std::path::PathBuf;

use punctual_client::Broker;
use punctual_linux::clock;
use punctual_model::{Duration, Instant};
use punctual_observe::followed::{Enforcer, Tree};
use punctual_trace::Promise;

pub use account::{JobAccount, LATE_KEPT, LatencyHistogram, RECENT, TaskAccounts};
pub use broker::{BrokerLink, BrokerState, promise_of, thread_of};
pub use observed::JobEvent;
pub use punctual_observe::Counts;
pub use threads::{Jobs, JobsState, ThreadJobs, ThreadState};

use crate::program::{Program, Target, enforcer};
use crate::{Failure, Message};
use threads::Uses;

/// The interval at which the kernel's records are collected.
const COLLECT: Duration = Duration::from_millis(50);

/// The things to watch, beside everything that the broker reports.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The broker's socket.
    pub socket: PathBuf,
    /// A program or process that is watched with its descendants. A program is started with its
    /// input and output discarded, and ended with the watcher.
    pub target: Option<Target>,
    /// The promise that the threads of the target are held to. Its deadline takes precedence over
    /// that of a grant.
    pub promise: Promise,
}

/// The state of the host at one moment.
#[derive(Clone, Debug)]
pub struct HostState {
    /// The broker's answer, or the reason why there is none.
    pub broker: Result<BrokerState, Message>,
    /// The jobs of the threads of all grants and of the target.
    pub jobs: JobsState,
    /// The threads of the target and of its descendants.
    pub threads: Vec<ThreadState>,
    /// The id of the target if it and all its descendants have ended.
    pub ended: Option<u32>,
}

/// Watches the host.
///
/// # Examples
/// ```no_run
/// use punctual::model::Duration;
/// use punctual::watch::{Scope, Watcher};
///
/// let scope = Scope {
///     socket: "/run/punctual/broker.sock".into(),
///     target: None,
///     promise: Default::default(),
/// };
/// for state in Watcher::start(scope)?.updates(Duration::from_secs(1)) {
///     for (thread, watched) in &state.jobs.threads {
///         if let Some(account) = &watched.account {
///             println!("thread {thread}: {} of {} jobs were late", account.late, account.jobs);
///         }
///     }
/// }
/// # Ok::<(), punctual::Failure>(())
/// ```
pub struct Watcher {
    link: BrokerLink,
    jobs: Jobs,
    /// The program that was started.
    program: Option<Program>,
    /// The process that is watched with its descendants.
    root: Option<u32>,
    promise: Promise,
    uses: Uses,
    enforcer: Option<Enforcer>,
}

impl Watcher {
    /// Starts to watch, and starts the program if the target is one. Without CAP_BPF and
    /// CAP_PERFMON jobs are not observed; the states say so.
    ///
    /// # Errors
    /// If there is no such program or process, or if there is neither a target nor a broker.
    pub fn start(scope: Scope) -> Result<Self, Failure> {
        let Scope { socket, target, promise } = scope;
        let (program, root) = match target {
            Some(target) => {
                let (program, root) = target.start_in_background()?;
                (program, Some(root))
            }
            None => {
                Broker::connect_to(&socket)?;
                (None, None)
            }
        };
        Ok(Self {
            link: BrokerLink::new(socket),
            jobs: Jobs::start(),
            program,
            root,
            promise,
            uses: Uses::default(),
            enforcer: enforcer(),
        })
    }

    /// Returns whether the program that the watcher started has ended.
    pub fn has_ended(&mut self) -> bool {
        self.program.as_mut().is_some_and(|program| program.has_ended().unwrap_or(true))
    }

    /// Collects the kernel's records until `until`, or until `is_over` returns true. It is asked
    /// every 50 ms. Between two calls at most 100 ms may pass, or records are lost.
    pub fn collect(&mut self, until: Instant, mut is_over: impl FnMut(&mut Self) -> bool) {
        loop {
            self.jobs.collect();
            let left = until.saturating_since(clock::now());
            if left.is_zero() || is_over(self) {
                return;
            }
            clock::sleep(COLLECT.min(left));
        }
    }

    /// Asks the broker, updates the set of watched threads, and returns the current state.
    pub fn state(&mut self) -> HostState {
        let broker = self.link.ask().map_err(|why| Message::from(&why));
        let tree = self.root.map(|root| Tree::of(&[root], self.enforcer.as_ref()));
        let tree = tree.unwrap_or_default();
        let grants = broker.as_ref().map_or(&[][..], |state| &state.status.grants[..]);
        let mut targets: BTreeMap<u32, Promise> =
            grants.iter().map(|grant| (thread_of(grant), promise_of(grant))).collect();
        for (_, thread) in &tree.threads {
            let promise = targets.entry(*thread).or_insert(self.promise);
            if self.promise.relative_deadline.is_some() {
                *promise = self.promise;
            }
        }
        self.jobs.watch(&targets, &tree.enforcers);
        let ended = self.root.filter(|_| tree == Tree::default());
        let threads = self.uses.of(&tree);
        HostState { broker, jobs: self.jobs.state(), threads, ended }
    }

    /// Returns the states at this interval, until the program that the watcher started has ended.
    /// The first comes at once.
    pub fn updates(mut self, every: Duration) -> impl Iterator<Item = HostState> {
        let mut next = clock::now();
        std::iter::from_fn(move || {
            self.collect(next, Self::has_ended);
            next = clock::now() + every;
            (!self.has_ended()).then(|| self.state())
        })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some(program) = self.program.take() {
            // If it cannot be waited for, it has been reaped.
            let _ = program.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_seen_and_ended_with_the_watcher() {
        let scope = Scope {
            socket: "/nonexistent/broker.sock".into(),
            target: Some(Target::Program(vec!["sleep".into(), "1000".into()])),
            promise: Promise::default(),
        };
        let mut watcher = Watcher::start(scope).expect("sleep");
        let state = watcher.state();
        let [thread] = &state.threads[..] else { panic!("{:?}", state.threads) };
        let folder = format!("/proc/{}", thread.process);
        assert!(state.broker.is_err() && state.ended.is_none() && !watcher.has_ended());
        assert!(std::path::Path::new(&folder).exists());
        drop(watcher);
        assert!(!std::path::Path::new(&folder).exists(), "it was ended and reaped");
    }

    #[test]
    fn updates_end_with_the_program() {
        let scope = Scope {
            socket: "/nonexistent/broker.sock".into(),
            target: Some(Target::Program(vec!["sleep".into(), "0.2".into()])),
            promise: Promise::default(),
        };
        let updates = Watcher::start(scope).expect("sleep").updates(Duration::from_millis(1));
        assert!(updates.take(1_000_000).count() < 1_000_000);
    }

    #[test]
    fn without_target_and_broker_there_is_nothing_to_watch() {
        let socket = "/nonexistent/broker.sock".into();
        let scope = Scope { socket, target: None, promise: Promise::default() };
        assert!(matches!(Watcher::start(scope), Err(Failure::CannotHere(_))));
    }
}
