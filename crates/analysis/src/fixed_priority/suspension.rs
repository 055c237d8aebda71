//! Tasks that suspend themselves, under fixed priorities.
//!
//! # The bound
//! A job of task i suspends itself for up to `S_i`, at any points and in any pieces. With hp(i) the
//! more urgent tasks, its response time is at most `R_i = J_i + w`, with the least
//!
//! ```text
//! w = C_i + S_i + Σ_{j ∈ hp(i)} ⌈(w + V_j)/T_j⌉·C_j + Σ_r I_r(w)
//! V_j = R_j − C_j if j suspends itself, else J_j
//! ```
//!
//! as long as `R_i ≤ T_i`. For the task itself a suspension counts as work (the oblivious view).
//! For the tasks below, the work of a suspending job may come up to `R_j − C_j` late.
//!
//! # Assumptions
//! - Tasks are sporadic and preemptible anywhere. With quanta nothing is proven: a job that has
//!   suspended can meet another quantum each time it resumes.
//! - Neither deadlines nor bounds are beyond the period, because no task above may have two jobs at
//!   once. So nothing is proven beyond the deadline, nor for any task below.
//! - A reservation runs above all tasks ([`crate::reservation::ReservedLoad::interference_in`]).
//!
//! # Source
//! Chen, Nelissen, Huang, Yang, Brandenburg, Bletsas, Liu, Richard, Ridouard, Audsley, Rajkumar, de
//! Niz & von der Brüggen, Real-Time Systems 55, 2019: suspension as release jitter with `R_j − C_j`
//! (their correction of the older, unsafe choice of `S_j`), with the oblivious treatment of the
//! task itself.
//!
//! # Units and answers
//! Nanoseconds from the nominal release; a bound that may not be reached.

use alloc::vec::Vec;

use punctual_model::Duration;

use crate::load::{CpuLoad, TaskLoad};
use crate::steps::Steps;

/// Returns a bound within its deadline for each task of `load`, in its order, if the task's jobs
/// suspend for at most the duration at the same position of `suspension` (not at all if
/// `suspension` is too short).
pub fn response_times(
    load: &CpuLoad,
    suspension: &[Duration],
    steps: &mut Steps,
) -> Vec<Option<Duration>> {
    let tasks = &load.tasks[..];
    let suits =
        |task: &TaskLoad| task.quantum == 0 && task.last == 0 && task.deadline <= task.period;
    let analysed = load.wake_up == 0 && tasks.iter().all(suits);
    let mut bounds: Vec<u64> = Vec::with_capacity(tasks.len());
    // How late the work of each task may come.
    let mut late: Vec<u64> = Vec::with_capacity(tasks.len());
    for (at, task) in tasks.iter().enumerate() {
        let suspended = suspension.get(at).map_or(0, |suspended| suspended.as_nanos());
        let higher = tasks[..at].iter().zip(&late);
        let bound = if analysed { bound(load, task, suspended, higher, steps) } else { None };
        let Some(bound) = bound else { break };
        bounds.push(bound);
        late.push(if suspended > 0 { bound - task.work } else { task.jitter });
    }
    (0..tasks.len()).map(|at| bounds.get(at).copied().map(Duration::from_nanos)).collect()
}

fn bound<'a>(
    load: &CpuLoad,
    task: &TaskLoad,
    suspended: u64,
    higher: impl Iterator<Item = (&'a TaskLoad, &'a u64)> + Clone,
    steps: &mut Steps,
) -> Option<u64> {
    let own = task.work.checked_add(suspended)?;
    let mut window = own;
    loop {
        let response = window.checked_add(task.jitter)?;
        if response > task.deadline {
            return None;
        }
        steps.take(1 + load.tasks.len() + load.reservations.len()).ok()?;
        let from_tasks = higher.clone().try_fold(own, |sum, (other, &late)| {
            let jobs = window.checked_add(late)?.div_ceil(other.period);
            sum.checked_add(jobs.checked_mul(other.work)?)
        })?;
        let mut reserved = load.reservations.iter().map(|r| r.interference_in(window));
        let next = reserved.try_fold(from_tasks, |sum, work| sum.checked_add(work?))?;
        if next <= window {
            return Some(response);
        }
        window = next;
    }
}
