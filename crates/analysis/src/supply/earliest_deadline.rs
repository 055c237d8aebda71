//! Earliest deadline first inside a reservation: demand against supply.
//!
//! # The bound
//! As in [`crate::edf::demand`], with the reservation's sure supply in place of the time: with
//! `d_i = D_i − J_i`, for every `t = d_i + k·T_i`, `k ≥ 0`:
//!
//! ```text
//! h(t) = Σ_{d_i ≤ t} (⌊(t − d_i) / T_i⌋ + 1)·C_i + max{q_j : d_j > t} ≤ sbf(t)
//! ```
//!
//! # Assumptions
//! Those of [`crate::edf::demand`], for tasks that share the reservation and nothing outside it.
//! The reservation is runnable while any of them has work.
//!
//! # Sources
//! Shin & Lee, RTSS 2003, Theorem 1 (EDF over the periodic resource model); Zhang & Burns, IEEE ToC
//! 58(9), 2009 (QPA). QPA carries over with `sbf⁻¹(h(t))` for `h(t)`: for a `t'` in
//! `[sbf⁻¹(h(t)), t]`, `h(t') ≤ h(t) ≤ sbf(sbf⁻¹(h(t))) ≤ sbf(t')`.
//!
//! # Units and answers
//! Nanoseconds. Exact without quanta for the worst supply that the guarantee allows; with them it
//! may refuse too much, never too little. The answer is undecided when [`Steps`] run out, or when
//! the required share cannot be told from X/Y and the hyperperiod does not fit in 64 bits.

use alloc::vec::Vec;

use punctual_model::Duration;

use crate::edf::demand::DemandVerdict;
use crate::load::{CpuLoad, TaskLoad};
use crate::ratio::Ratio;
use crate::steps::{OutOfSteps, Steps};

use super::bound::Supply;
use super::bound::absence;

/// Judges `load` inside `supply` under earliest deadline first. In [`DemandVerdict::Exceeds`], `by`
/// is the amount that `sbf` lacks in that window. A load with reservations of its own is undecided.
pub fn supply_demand(load: &CpuLoad, supply: &Supply, steps: &mut Steps) -> DemandVerdict {
    if !load.reservations.is_empty() {
        return DemandVerdict::Undecided;
    }
    let mut total = absence(supply);
    for task in &load.tasks {
        total.add(task.work, task.period);
    }
    if total.exceeds_one() {
        return DemandVerdict::Overload;
    }
    let spare = Ratio::ONE.minus(total.above());
    let searched = horizon(load, supply, spare, total.hyperperiod_within_one())
        .and_then(|end| search(load, supply, end, steps));
    match searched {
        Ok(None) => DemandVerdict::Fits,
        Ok(Some(miss)) => miss,
        Err(OutOfSteps) => DemandVerdict::Undecided,
    }
}

/// Runs QPA from the last deadline before `end` down, once for each interval of constant blocking.
fn search(
    load: &CpuLoad,
    supply: &Supply,
    mut end: u64,
    steps: &mut Steps,
) -> Result<Option<DemandVerdict>, OutOfSteps> {
    for (start, blocking) in stretches(load) {
        let mut before = end;
        while let Some((t, task)) = last_deadline_before(load, before, steps)? {
            if t < start {
                break;
            }
            let demand = demand(load, t, blocking, steps)?;
            let given = supply.least_in(Duration::from_nanos(t)).as_nanos();
            if demand > given {
                return Ok(Some(DemandVerdict::Exceeds {
                    window: Duration::from_nanos(t),
                    by: Duration::from_nanos(demand - given),
                    task,
                }));
            }
            // At most t, because `sbf(t)` covers it.
            before = supply.nanos_for(demand).ok_or(OutOfSteps)?;
        }
        end = end.min(start);
    }
    Ok(None)
}

/// Returns the start and the blocking of each interval of constant blocking, the last one first.
/// Blocking is the largest quantum with `d_j > t`, or the wake-up.
fn stretches(load: &CpuLoad) -> Vec<(u64, u64)> {
    let mut ends: Vec<(u64, u64)> =
        load.tasks.iter().map(|task| (task.deadline_after_jitter(), task.quantum)).collect();
    ends.sort_unstable_by(|a, b| b.cmp(a));
    let (mut stretches, mut blocking) = (Vec::new(), load.wake_up);
    for (end, quantum) in ends {
        if quantum > blocking {
            stretches.push((end, blocking));
            blocking = quantum;
        }
    }
    stretches.push((0, blocking));
    stretches
}

/// Returns a length such that if any window is too short for its demand, one shorter than this is.
///
/// - Below X/Y: `sbf(t) ≥ (X/Y)(t − Δ)` with Δ the longest gap, and
///   `h(t) ≤ U·t + Σ U_i·max(0, T_i − d_i) + B`; so `t·(X/Y − U)` is below `(X/Y)·Δ` and the rest.
/// - At most X/Y: beyond the last `d_i` and the delay of the supply, demand and supply of `t + H`
///   are those of t with `U·H` and `X/Y·H` more.
fn horizon(
    load: &CpuLoad,
    supply: &Supply,
    spare: Ratio,
    hyperperiod: Option<u64>,
) -> Result<u64, OutOfSteps> {
    let by_spare = || {
        let mut rest = load.longest_blocking();
        for task in &load.tasks {
            let early = task.period.saturating_sub(task.deadline_after_jitter());
            rest = rest.checked_add(share_of(early, task.work, task.period)?)?;
        }
        let (budget, period) = supply.numbers();
        let gap = supply.longest_gap()?.as_nanos();
        spare.divide_up(rest.checked_add(share_of(gap, budget, period)?)?)
    };
    let by_hyperperiod = || {
        let last = load.tasks.iter().map(TaskLoad::deadline_after_jitter).max().unwrap_or(0);
        last.max(supply.delay()).checked_add(hyperperiod?)
    };
    let far = by_spare().into_iter().chain(by_hyperperiod()).min().ok_or(OutOfSteps)?;
    far.checked_add(1).ok_or(OutOfSteps)
}

/// Returns `length · work / period`, rounded up.
fn share_of(length: u64, work: u64, period: u64) -> Option<u64> {
    u64::try_from((u128::from(length) * u128::from(work)).div_ceil(u128::from(period))).ok()
}

/// Returns `h(t)` with the given blocking.
fn demand(load: &CpuLoad, t: u64, blocking: u64, steps: &mut Steps) -> Result<u64, OutOfSteps> {
    steps.take(load.tasks.len())?;
    let mut sum = blocking;
    for task in &load.tasks {
        if let Some(since) = t.checked_sub(task.deadline_after_jitter()) {
            let due = (since / task.period + 1).checked_mul(task.work).ok_or(OutOfSteps)?;
            sum = sum.checked_add(due).ok_or(OutOfSteps)?;
        }
    }
    Ok(sum)
}

/// Returns the last instant before `end` with a deadline, and a task that has one there.
fn last_deadline_before(
    load: &CpuLoad,
    end: u64,
    steps: &mut Steps,
) -> Result<Option<(u64, usize)>, OutOfSteps> {
    steps.take(load.tasks.len())?;
    let deadlines = load.tasks.iter().enumerate().filter_map(|(at, task)| {
        let first = task.deadline_after_jitter();
        let since = end.checked_sub(1)?.checked_sub(first)?;
        Some((first + since / task.period * task.period, at))
    });
    Ok(deadlines.max_by_key(|(deadline, _)| *deadline))
}
