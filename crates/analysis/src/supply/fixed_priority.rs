//! Response times under fixed priorities inside a reservation.
//!
//! # The bound
//! As in [`crate::fixed_priority`], with the time in which the reservation surely serves the work
//! in place of the work: `w_q` is the least window with
//!
//! ```text
//! sbf(w_q) ≥ B_i + (q + 1)·C_i + Σ_{j ∈ hp(i)} ⌈(w_q + J_j) / T_j⌉·C_j
//! R_i = J_i + max_q (w_q − q·T_i)      over q = 0, 1, … until w_q + J_i ≤ (q + 1)·T_i
//! ```
//!
//! # Assumptions
//! Those of [`crate::fixed_priority`], for tasks that share the reservation and nothing outside it.
//! The reservation is runnable while any of them has work, so its supply in the busy window is at
//! least `sbf`. A quantum is a stretch of work: it may be cut by the end of a budget, and delays a
//! more urgent task of the same reservation by its own work only. Switches between the tasks are
//! charged to them; switches to and from the reservation are charged to the reservation.
//!
//! # Sources
//! Shin & Lee, RTSS 2003, §4 (fixed priorities over the periodic resource model); Lehoczky, RTSS
//! 1990, for the later jobs of a window.
//!
//! # Units and answers
//! Nanoseconds from the nominal release. Without quanta and jitter the result is exact for the
//! worst supply that the guarantee allows. Tasks that need more than X/Y have no bound. At exactly
//! X/Y the jobs repeat after the common multiple H of all periods and Y: demand and the time for it
//! both grow by H, as in [`crate::fixed_priority`]. Beyond [`Steps`] or 64 bits the result is
//! undecided.

use alloc::vec::Vec;

use punctual_model::Duration;

use crate::fixed_priority::ResponseTime;
use crate::load::{CpuLoad, TaskLoad};
use crate::ratio::Utilisation;
use crate::steps::{OutOfSteps, Steps};

use super::bound::Supply;
use super::bound::{Inside, absence};

/// Returns the response time of each task of `load`, in its order, inside `supply`. A load with
/// reservations of its own is undecided.
pub fn response_times_inside(
    load: &CpuLoad,
    supply: &Supply,
    steps: &mut Steps,
) -> Vec<ResponseTime> {
    let nested = !load.reservations.is_empty();
    let undecided = ResponseTime::Undecided { at_least: Duration::ZERO };
    levels(load, supply)
        .map(|level| if nested { undecided } else { level.response_time(u64::MAX, steps) })
        .collect()
}

/// Returns whether every task is in time.
pub(crate) fn all_in_time_inside(load: &CpuLoad, supply: &Supply, steps: &mut Steps) -> Inside {
    if !load.reservations.is_empty() {
        return Inside::Undecided;
    }
    let mut answer = Inside::Fits;
    for level in levels(load, supply) {
        let deadline = level.task.deadline;
        match level.response_time(deadline, steps) {
            ResponseTime::AtMost(bound) if bound.as_nanos() <= deadline => {}
            ResponseTime::AtMost(_) | ResponseTime::Unbounded => return Inside::Late,
            // A lower bound beyond the deadline decides too.
            ResponseTime::Undecided { at_least } if at_least.as_nanos() > deadline => {
                return Inside::Late;
            }
            ResponseTime::Undecided { .. } => answer = Inside::Undecided,
        }
    }
    answer
}

/// One task with everything that delays it.
struct Level<'a> {
    task: TaskLoad,
    higher: &'a [TaskLoad],
    blocking: u64,
    supply: &'a Supply,
    /// The utilisation of the task, those above it, and the time outside the reservation.
    total: Utilisation,
}

fn levels<'a>(load: &'a CpuLoad, supply: &'a Supply) -> impl Iterator<Item = Level<'a>> {
    let mut total = absence(supply);
    load.tasks.iter().enumerate().map(move |(at, &task)| {
        total.add(task.work, task.period);
        let quanta = load.tasks[at + 1..].iter().map(|lower| lower.quantum);
        let blocking = quanta.max().unwrap_or(0).max(load.wake_up);
        Level { task, higher: &load.tasks[..at], blocking, supply, total }
    })
}

impl Level<'_> {
    /// Examines jobs until the worst response time is known, or until one exceeds `enough`.
    fn response_time(&self, enough: u64, steps: &mut Steps) -> ResponseTime {
        if self.total.exceeds_one() {
            return ResponseTime::Unbounded;
        }
        let mut worst = 0;
        match self.longest(enough, &mut worst, steps) {
            Ok(()) => ResponseTime::AtMost(Duration::from_nanos(worst)),
            Err(OutOfSteps) => ResponseTime::Undecided { at_least: Duration::from_nanos(worst) },
        }
    }

    fn longest(&self, enough: u64, worst: &mut u64, steps: &mut Steps) -> Result<(), OutOfSteps> {
        let TaskLoad { work, period, jitter, .. } = self.task;
        let repetition = self.total.hyperperiod_within_one().map(|h| h / period);
        let mut own = self.blocking;
        let (mut window, mut release) = (0u64, 0u64);
        for job in 1u64.. {
            own = own.checked_add(work).ok_or(OutOfSteps)?;
            // Every value on the way to the fixed point is a lower bound of it.
            loop {
                let next = self.time_for_all(own, window, steps)?;
                let busy = next.checked_add(jitter).ok_or(OutOfSteps)?;
                *worst = (*worst).max(busy.saturating_sub(release));
                if next <= window || *worst > enough {
                    break;
                }
                window = next;
            }
            release = release.checked_add(period).ok_or(OutOfSteps)?;
            let window_closed = window.checked_add(jitter).ok_or(OutOfSteps)? <= release;
            if window_closed || *worst > enough || Some(job) == repetition {
                return Ok(());
            }
        }
        Err(OutOfSteps)
    }

    /// Returns the time for `own` and all work that arrives above the task in `window`.
    fn time_for_all(&self, own: u64, window: u64, steps: &mut Steps) -> Result<u64, OutOfSteps> {
        steps.take(self.higher.len() + 1)?;
        self.higher
            .iter()
            .try_fold(own, |sum, task| sum.checked_add(task.work_in(window)?))
            .and_then(|work| self.supply.nanos_for(work))
            .ok_or(OutOfSteps)
    }
}
