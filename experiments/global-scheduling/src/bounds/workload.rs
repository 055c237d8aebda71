//! Global scheduling: response times from the most that each task can do in a window.
//!
//! # The bound
//! A task whose jobs complete at least `S_i` before their deadlines works in any window of x at most
//!
//! ```text
//! W_i(x) = N·C_i + min(C_i, x + D_i − C_i − S_i − N·T_i),   N = ⌊(x + D_i − C_i − S_i)/T_i⌋
//! ```
//!
//! and a job of task k is delayed only while all m CPUs do other work:
//!
//! ```text
//! R_k = the least x with x = C_k + ⌊Σ_i min(I_i(x), x − C_k + 1) / m⌋
//! ```
//!
//! - Fixed priority: i is more urgent than k, `I_i = W_i`. Their slack `S_i = D_i − R_i` is known.
//! - Earliest deadline first: i is any other task. Only jobs due by k's deadline count, so
//!   `I_i = min(W_i, ⌊D_k/T_i⌋·C_i + min(C_i, max(0, D_k mod T_i − S_i)))`. All slacks begin at zero,
//!   and each round may find more, until nothing changes.
//!
//! # Source
//! Bertogna & Cirinei, RTSS 2007 (§4 the workload, §5 the response times, §6 the slack and its
//! rounds). The assumptions are those of [`super`].
//!
//! # Units and answers
//! Nanoseconds from the release; the bound may not be reached. Under fixed priorities nothing is
//! proven for a task that may exceed its deadline, nor for any below it. Under earliest deadline
//! first the slack of one task relies on the deadlines of all: all tasks are proven, or none. There
//! is no bound when [`Steps`] run out.

use punctual_analysis::Steps;
use punctual_model::{Duration, Task};

use super::{Ticks, in_ticks, padded};

/// Whether the proven slack of a task helps the tasks that it delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slack {
    /// Each task is assumed to need all the time to its deadline.
    Ignored,
    /// Each task is assumed to complete as early as is proven.
    Used,
}

/// Returns a bound within its deadline for each of `tasks`, the most urgent first, under fixed
/// priorities on `cpus` CPUs.
pub fn fixed_priority(
    tasks: &[Task],
    cpus: u16,
    slack: Slack,
    steps: &mut Steps,
) -> Vec<Option<Duration>> {
    let ticks = in_ticks(tasks, cpus).unwrap_or_default();
    let mut bounds: Vec<u64> = Vec::with_capacity(ticks.len());
    let mut done_by: Vec<u64> = Vec::with_capacity(ticks.len());
    for (at, task) in ticks.iter().enumerate() {
        let others = || ticks[..at].iter().zip(&done_by);
        let delay =
            |window| others().map(move |(other, &done_by)| in_window(other, done_by, window));
        let Some(bound) = response_time(task, at, delay, cpus, steps) else { break };
        bounds.push(bound);
        done_by.push(if slack == Slack::Used { bound } else { task.deadline });
    }
    padded(&bounds, tasks.len())
}

/// Returns a bound within its deadline for each of `tasks` under earliest deadline first on `cpus`
/// CPUs; `None` if not every task is proven to be in time.
pub fn earliest_deadline(tasks: &[Task], cpus: u16, steps: &mut Steps) -> Option<Vec<Duration>> {
    let tasks = in_ticks(tasks, cpus)?;
    let mut done_by: Vec<u64> = tasks.iter().map(|task| task.deadline).collect();
    let mut proven = vec![false; tasks.len()];
    loop {
        let mut changed = false;
        for (at, task) in tasks.iter().enumerate() {
            let delay = |window| {
                let others = tasks.iter().zip(&done_by).enumerate();
                others.filter(move |(other, _)| *other != at).map(move |(_, (other, &done_by))| {
                    let due = due_in(other, done_by, task.deadline)?;
                    Some(in_window(other, done_by, window)?.min(due))
                })
            };
            if let Some(bound) = response_time(task, tasks.len(), delay, cpus, steps) {
                changed |= !proven[at] || bound < done_by[at];
                proven[at] = true;
                done_by[at] = bound.min(done_by[at]);
            }
        }
        if !changed {
            let all = proven.iter().all(|&proven| proven);
            return all.then(|| done_by.into_iter().map(Duration::from_nanos).collect());
        }
    }
}

/// Returns the least fixed point within the deadline, with `delay` as the `I_i` of the `others`.
fn response_time<I: Iterator<Item = Option<u64>>>(
    task: &Ticks,
    others: usize,
    delay: impl Fn(u64) -> I,
    cpus: u16,
    steps: &mut Steps,
) -> Option<u64> {
    let mut window = task.work;
    while window <= task.deadline {
        steps.take(1 + 2 * others).ok()?;
        let beside = window - task.work + 1;
        let sum = delay(window).try_fold(0u64, |sum, other| sum.checked_add(other?.min(beside)))?;
        let next = task.work.checked_add(sum / u64::from(cpus))?;
        if next <= window {
            return Some(window);
        }
        window = next;
    }
    None
}

/// Returns `W_i`, if the jobs of i complete within `done_by`.
fn in_window(task: &Ticks, done_by: u64, window: u64) -> Option<u64> {
    let reach = window.checked_add(done_by)?.checked_sub(task.work)?;
    let whole = (reach / task.period).checked_mul(task.work)?;
    whole.checked_add((reach % task.period).min(task.work))
}

/// Returns the work that is due within a window that ends at a deadline of the task and is `window`
/// long.
fn due_in(task: &Ticks, done_by: u64, window: u64) -> Option<u64> {
    let whole = (window / task.period).checked_mul(task.work)?;
    let slack = task.deadline - done_by;
    whole.checked_add((window % task.period).saturating_sub(slack).min(task.work))
}
