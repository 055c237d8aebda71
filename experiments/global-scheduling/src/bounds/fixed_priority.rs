//! Global fixed priority: response times, with at most m − 1 tasks that were busy before the window.
//!
//! # The bound
//! Let the window of a job of task k start when the m CPUs were last not all busy with more urgent
//! work, or at its release. At that moment at most m − 1 more urgent tasks had a job in progress, and
//! each such job had run for a tick. In a window of x a task i without such a job works at most
//! `W^NC`, a task with one `W^CI`:
//!
//! ```text
//! W^NC_i(x) = ⌊x/T_i⌋·C_i + min(x mod T_i, C_i)
//! W^CI_i(x) = ⌊y/T_i⌋·C_i + C_i + min(max(y mod T_i − (T_i − R_i), 0), C_i − 1),  y = max(x − C_i, 0)
//! R_k = the least x with x = C_k + ⌊(Σ I^NC_i(x) + the m − 1 largest I^CI_i(x) − I^NC_i(x)) / m⌋
//! ```
//!
//! with `I = min(W, x − C_k + 1)`: work that runs beside the job itself does not delay it.
//!
//! # Source
//! Guan, Stigge, Yi & Yu, RTSS 2009 (§4: the window; Theorem 1: the bound), for deadlines within the
//! period. The assumptions are those of [`super`].
//!
//! # Units and answers
//! Nanoseconds from the release; the bound may not be reached. Nothing is proven for a task that may
//! exceed its deadline, nor for any below it, nor when [`Steps`] run out.

use std::cmp::Reverse;

use punctual_analysis::Steps;
use punctual_model::{Duration, Task};

use super::{Ticks, in_ticks, padded};

/// Returns a bound within its deadline for each of `tasks`, the most urgent first, on `cpus` CPUs.
pub fn response_times(tasks: &[Task], cpus: u16, steps: &mut Steps) -> Vec<Option<Duration>> {
    let ticks = in_ticks(tasks, cpus).unwrap_or_default();
    let mut bounds: Vec<u64> = Vec::with_capacity(ticks.len());
    for (at, task) in ticks.iter().enumerate() {
        let Some(bound) = response_time(task, &ticks[..at], &bounds, cpus, steps) else { break };
        bounds.push(bound);
    }
    padded(&bounds, tasks.len())
}

fn response_time(
    task: &Ticks,
    higher: &[Ticks],
    bounds: &[u64],
    cpus: u16,
    steps: &mut Steps,
) -> Option<u64> {
    let mut window = task.work;
    let mut extra = Vec::with_capacity(higher.len());
    while window <= task.deadline {
        // Two workloads a task, and the order of the differences.
        steps.take(1 + 4 * higher.len()).ok()?;
        extra.clear();
        let beside = window - task.work + 1;
        let mut sum = 0u64;
        for (other, &bound) in higher.iter().zip(bounds) {
            let alone = fresh(other, window)?.min(beside);
            extra.push(carried(other, bound, window)?.min(beside).saturating_sub(alone));
            sum = sum.checked_add(alone)?;
        }
        extra.sort_unstable_by_key(|&extra| Reverse(extra));
        let carriers = usize::from(cpus) - 1;
        sum = extra.iter().take(carriers).try_fold(sum, |sum, &more| sum.checked_add(more))?;
        let next = task.work.checked_add(sum / u64::from(cpus))?;
        if next <= window {
            return Some(window);
        }
        window = next;
    }
    None
}

/// `W^NC`.
fn fresh(task: &Ticks, window: u64) -> Option<u64> {
    let whole = (window / task.period).checked_mul(task.work)?;
    whole.checked_add((window % task.period).min(task.work))
}

/// `W^CI`.
fn carried(task: &Ticks, bound: u64, window: u64) -> Option<u64> {
    let rest = window.saturating_sub(task.work);
    let whole = (rest / task.period).checked_mul(task.work)?.checked_add(task.work)?;
    // A bound is within the deadline, which is within the period.
    let carried = (rest % task.period).saturating_sub(task.period - bound);
    whole.checked_add(carried.min(task.work - 1))
}
