//! Finds a witness to a refusal: a schedule, within the contract, in which a job misses its
//! deadline.
//!
//! # What is tried
//! In this order, each from an idle processor:
//! 1. All tasks released at once with the largest jitter, then as densely as allowed: the critical
//!    instant of fixed priorities (Liu & Layland 1973), and the arrivals of the processor demand
//!    test under earliest deadline first (Baruah, Mok & Rosier, RTSS 1990).
//! 2. The same with each task as blocker: its longest quantum begins 1 ns earlier.
//! 3. With the remaining budget, the same with the job of one task due together with each of the
//!    first jobs of another (Spuri 1996).
//!
//! In all of them the blocker's quantum is as long as its contract allows, and all other tasks have
//! yield points everywhere but in their last segment. A quantum is the *longest* stretch without a
//! yield point, and a long quantum of the job under attack would only protect it.
//!
//! # What has no witness
//! - A system that misses only if the blocker begins less than a nanosecond before. A bound in
//!   continuous time is a supremum, and here the blocker holds the processor for a nanosecond less
//!   than its quantum. If all lengths are whole microseconds there is no such system.
//! - A first miss beyond the budget, with a utilisation barely above one, or a busy window of
//!   astronomical length.
//! - A refusal that was not exact.

use alloc::vec::Vec;

use punctual_model::{Duration, Instant, JobId, Task};
use punctual_policy::jobs::Jobs;
use punctual_trace::{Event, Kind, Sink};

use crate::arrivals::{Adversarial, Aligned, Arrival, Attack, Listed, Recorded};
use crate::tasks::{Below, Eager, Setting, run_in};

/// A schedule with a miss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The jobs of each task up to the completion of the job that misses, in order.
    pub arrivals: Vec<Vec<Arrival>>,
    /// For each task, true if it has yield points everywhere but in its last segment; otherwise
    /// they are as far apart as allowed.
    pub eager: Vec<bool>,
    /// The job with the earliest deadline of those that miss.
    pub missed: JobId,
    /// Its absolute deadline.
    pub absolute_deadline: Instant,
    /// The instant of its completion.
    pub completion: Instant,
}

impl Witness {
    /// Runs the schedule again: the same jobs of the same `tasks` under the same `policy`.
    pub fn replay(&self, tasks: &[Task], policy: Jobs, sink: &mut impl Sink) {
        let setting = Setting::default().yielding(Eager(&self.eager));
        let mut arrivals = Listed::new(&self.arrivals);
        // A whole processor leaves nothing unfinished.
        let _ = run_in(setting, tasks, policy, &mut arrivals, Instant::MAX, sink);
    }

    /// Runs the same jobs in the layers of the kernel: the last `kernel` of `tasks` are
    /// reservations, which go before all others by deadline and are never kept off by a quantum.
    /// `policy` is that of the other tasks. Events of the reservations go to `above`, with numbers
    /// that count from the first reservation.
    pub fn replay_in_layers(
        &self,
        tasks: &[Task],
        kernel: usize,
        policy: Jobs,
        above: impl Sink,
        sink: &mut impl Sink,
    ) {
        let below = tasks.len() - kernel;
        let (tasks, reservations) = tasks.split_at(below);
        let (own, budgets) = self.arrivals.split_at(below);
        let by_deadline = Jobs::earliest_deadline(kernel);
        let (budgets, end) = (Listed::new(budgets), Instant::MAX);
        let mut left =
            Below::new(Setting::default(), reservations, by_deadline, budgets, end, above);
        let setting = Setting::default().yielding(Eager(&self.eager)).on(&mut left, end);
        // Reservations leave some processor time sooner or later, so the jobs come to an end.
        let _ = run_in(setting, tasks, policy, &mut Listed::new(own), end, sink);
        left.finish();
    }

    /// Returns the schedule with the job of a task that misses in [layers](Self::replay_in_layers),
    /// or `None` if every task is in time there.
    pub fn in_layers(self, tasks: &[Task], kernel: usize, policy: Jobs) -> Option<Self> {
        let mut watch = Watch::new(&tasks[..tasks.len() - kernel], Instant::MAX);
        self.replay_in_layers(tasks, kernel, policy, (), &mut watch);
        let Miss { job: missed, deadline: absolute_deadline, completion } = watch.first_miss?;
        Some(Self { missed, absolute_deadline, completion, ..self })
    }
}

/// The effort of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The total number of jobs to simulate.
    pub jobs: u64,
}

impl Default for Budget {
    /// Returns half a million jobs, which take a fraction of a second.
    fn default() -> Self {
        Self { jobs: 500_000 }
    }
}

/// Searches for a schedule of `tasks` that misses under `policy`, which must not have been used.
pub fn search(tasks: &[Task], policy: &Jobs, budget: Budget) -> Option<Witness> {
    let mut jobs = budget.jobs;
    let count = tasks.len() as u32;
    let blockers = || {
        core::iter::once(None)
            .chain((0..count).map(Some))
            .filter(|blocker| blocker.is_none_or(|task| !tasks[task as usize].quantum().is_zero()))
    };
    let at_once = blockers().map(|blocker| Attack { blocker, ..Attack::default() });
    let aligned = (0..FIRST_JOBS).flat_map(|job| {
        pairs(count).flat_map(move |(task, with)| {
            blockers().filter(move |blocker| *blocker != Some(task)).map(move |blocker| Attack {
                blocker,
                aligned: Some(Aligned { task, with, job }),
                ..Attack::default()
            })
        })
    });
    for attack in at_once.chain(aligned) {
        // Uses half of the rest, so that an endless busy period leaves something for the other
        // attacks.
        let mut share = jobs.div_ceil(2);
        jobs -= share;
        let found = carry_out(attack, tasks, policy, &mut share);
        // Setting up a run that the share then does not allow costs about a job of each task.
        jobs = (jobs + share).saturating_sub(count.into());
        if found.is_some() || jobs == 0 {
            return found;
        }
    }
    None
}

/// The number of jobs of each other task with which a job under attack is aligned.
const FIRST_JOBS: u64 = 4;

/// Returns all ordered pairs of different tasks.
fn pairs(count: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..count).flat_map(move |one| {
        (0..count).filter(move |other| *other != one).map(move |other| (one, other))
    })
}

/// Runs `attack` for longer and longer, until a job misses, the processor becomes idle before the
/// end, or the budget is exhausted.
fn carry_out(attack: Attack, tasks: &[Task], policy: &Jobs, jobs: &mut u64) -> Option<Witness> {
    let eager: Vec<bool> = (0..tasks.len() as u32).map(|at| attack.blocker != Some(at)).collect();
    let pattern = Adversarial::new(tasks, attack);
    let begin = pattern.critical_instant();
    let longest = tasks.iter().map(Task::relative_deadline).max()?;
    let mut length = longest;
    loop {
        // Later arrivals do not change jobs that are due by `end`.
        let end = begin.saturating_add(length);
        let cost: u64 = tasks.iter().map(|task| length / task.min_inter_arrival() + 1).sum();
        let Some(left) = jobs.checked_sub(cost) else {
            // Only longer runs may exceed the share; the shorter ones were done.
            return None;
        };
        *jobs = left;
        let mut arrivals = Recorded::new(tasks.len(), pattern.clone());
        let mut watch = Watch::new(tasks, end);
        let setting = Setting::default().yielding(Eager(&eager));
        let _ = run_in(setting, tasks, policy.clone(), &mut arrivals, end, &mut watch);
        if let Some(miss) = watch.first_miss {
            let mut lists = arrivals.into_lists();
            for list in &mut lists {
                list.retain(|arrival| arrival.known < miss.completion && arrival.known < end);
            }
            return Some(Witness {
                arrivals: lists,
                eager,
                missed: miss.job,
                absolute_deadline: miss.deadline,
                completion: miss.completion,
            });
        }
        if watch.was_idle() {
            return None;
        }
        length = length.checked_mul(2)?;
    }
}

#[derive(Clone, Copy)]
struct Miss {
    job: JobId,
    deadline: Instant,
    completion: Instant,
}

/// Looks for the miss with the earliest deadline, and for idle time of the processor before `end`.
struct Watch {
    relative_deadlines: Vec<Duration>,
    end: Instant,
    first_miss: Option<Miss>,
    /// The completion of the last job, if no job has run since.
    idle_since: Option<Instant>,
    gap: bool,
}

impl Watch {
    fn new(tasks: &[Task], end: Instant) -> Self {
        Self {
            relative_deadlines: tasks.iter().map(Task::relative_deadline).collect(),
            end,
            first_miss: None,
            idle_since: None,
            gap: false,
        }
    }

    fn was_idle(&self) -> bool {
        self.gap || self.idle_since.is_some_and(|since| since < self.end)
    }
}

impl Sink for Watch {
    fn record(&mut self, event: Event) {
        let Event { at, job, release, kind } = event;
        if let Some(since) = self.idle_since.take() {
            self.gap |= since < at;
        }
        if kind != Kind::Complete {
            return;
        }
        self.idle_since = Some(at);
        let deadline = release.saturating_add(self.relative_deadlines[job.task as usize]);
        if at > deadline && self.first_miss.is_none_or(|miss| deadline < miss.deadline) {
            self.first_miss = Some(Miss { job, deadline, completion: at });
        }
    }
}
