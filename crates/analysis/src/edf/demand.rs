//! Earliest deadline first: the processor demand test.
//!
//! # The bound
//! With `d_i = D_i − J_i`, for every instant t at which a deadline may lie (`t = d_i + k·T_i`,
//! `k ≥ 0`):
//!
//! ```text
//! h(t) = Σ_{d_i ≤ t} (⌊(t − d_i) / T_i⌋ + 1)·C_i + Σ_r I_r(t) + max{q_j : d_j > t} ≤ t
//! ```
//!
//! # Assumptions
//! - Tasks are sporadic and independent, and their releases become known in order. Deadlines count
//!   from the nominal release, so a release that becomes known late has `D − J` left.
//! - A running job is blocked by at most one quantum of a job with a later deadline, begun just
//!   before the window (the whole quantum: time is continuous). A task with `d_j ≤ t < D_j` does
//!   not count as a blocker: with releases in order, it blocks only if it adds no job of its own,
//!   and one job is at least one quantum.
//! - Reservations run above all tasks ([`crate::reservation::ReservedLoad::interference_in`]).
//!
//! # Sources
//! Baruah, Mok & Rosier, RTSS 1990 (demand); Baruah, ECRTS 2005, Theorem 1 (floating quanta); Zhang
//! & Burns, IEEE ToC 58(9), 2009 (QPA: which instants need a check). QPA requires a demand that
//! never falls, but blocking falls with t; so QPA runs once for each interval in which the blocking
//! is constant.
//!
//! # Units and answers
//! Nanoseconds. The test is exact without quanta and reservations; with them it may refuse too
//! much, never too little. A utilisation above one never fits. The answer is undecided when
//! [`Steps`] run out, or when the utilisation cannot be told from one and the hyperperiod does not
//! fit in 64 bits.

use alloc::vec::Vec;

use punctual_model::Duration;

use crate::load::{CpuLoad, TaskLoad};
use crate::ratio::Ratio;
use crate::steps::{OutOfSteps, Steps};

/// The verdict on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DemandVerdict {
    /// Every deadline is met.
    Fits,
    /// In some window of length `window`, more work is due than there is time.
    Exceeds {
        /// The length of the window.
        window: Duration,
        /// The excess of the due work over the window.
        by: Duration,
        /// The position of a task with a deadline at the end of that window.
        task: usize,
    },
    /// Tasks and reservations need more than one CPU.
    Overload,
    /// Not decided within the steps.
    Undecided,
}

/// Judges `load` under earliest deadline first.
pub fn processor_demand(load: &CpuLoad, steps: &mut Steps) -> DemandVerdict {
    if load.utilisation().exceeds_one() {
        return DemandVerdict::Overload;
    }
    match search(load, steps) {
        Ok(None) => DemandVerdict::Fits,
        Ok(Some(miss)) => miss,
        Err(OutOfSteps) => DemandVerdict::Undecided,
    }
}

fn search(load: &CpuLoad, steps: &mut Steps) -> Result<Option<DemandVerdict>, OutOfSteps> {
    let mut end = horizon(load, steps)?.checked_add(1).ok_or(OutOfSteps)?;
    for Stretch { start, blocking } in stretches_from_the_last(load) {
        // QPA: go down from the last deadline before `end`. All instants from `h(t)` on are
        // covered, so the next one to check is the last deadline before `min(t, h(t))`.
        let mut before = end;
        while let Some((t, task)) = last_deadline_before(load, before, steps)? {
            if t < start {
                break;
            }
            let demand = demand(load, t, blocking, steps)?;
            if demand > t {
                return Ok(Some(DemandVerdict::Exceeds {
                    window: Duration::from_nanos(t),
                    by: Duration::from_nanos(demand - t),
                    task,
                }));
            }
            before = demand;
        }
        end = end.min(start);
    }
    Ok(None)
}

/// An interval of constant blocking, from `start` to the start of the next one above.
struct Stretch {
    start: u64,
    blocking: u64,
}

/// Returns the intervals of constant blocking, the last one first. Blocking is the largest quantum
/// of a task with `d_j > t`, or the wake-up: that alone after the last `d_j`, then growing towards
/// zero.
fn stretches_from_the_last(load: &CpuLoad) -> Vec<Stretch> {
    let mut ends: Vec<(u64, u64)> =
        load.tasks.iter().map(|task| (task.deadline_after_jitter(), task.quantum)).collect();
    ends.sort_unstable_by(|a, b| b.cmp(a));
    let mut stretches = Vec::new();
    let mut blocking = load.wake_up;
    for (end, quantum) in ends {
        if quantum > blocking {
            stretches.push(Stretch { start: end, blocking });
            blocking = quantum;
        }
    }
    stretches.push(Stretch { start: 0, blocking });
    stretches
}

/// Returns a length such that if any window is too short for its demand, one no longer than this
/// is.
///
/// - Below a utilisation of one (Baruah, Mok & Rosier): `t < h(t)` and
///   `h(t) ≤ U·t + Σ U_i·max(0, T_i − d_i) + Σ_r E_r + R + B`, so `t·(1 − U)` is below the rest.
///   (E_r is the most that a window may hold of r beyond its share; R, the number of reservations,
///   covers the rounding of each.)
/// - At most one: beyond the last `d_i`, `h(t + H) ≤ h(t) + H` for a hyperperiod H.
/// - The first busy period: if a deadline in it is missed, one is missed by its end.
fn horizon(load: &CpuLoad, steps: &mut Steps) -> Result<u64, OutOfSteps> {
    let utilisation = load.utilisation();
    let last = load.tasks.iter().map(TaskLoad::deadline_after_jitter).max().unwrap_or(0);
    let blocking = load.longest_blocking();

    let by_slack = || {
        let mut rest = blocking.checked_add(load.reservations.len() as u64)?;
        for task in &load.tasks {
            let early = task.period.saturating_sub(task.deadline_after_jitter());
            let area = u128::from(early) * u128::from(task.work);
            let share = area.div_ceil(u128::from(task.period));
            rest = rest.checked_add(u64::try_from(share).ok()?)?;
        }
        for reservation in &load.reservations {
            rest = rest.checked_add(reservation.beyond_its_share()?)?;
        }
        Ratio::ONE.minus(utilisation.above()).divide_up(rest)
    };
    let by_hyperperiod = || last.checked_add(utilisation.hyperperiod_within_one()?);
    // Each bound holds alone; the shorter one saves work.
    let far = by_slack().into_iter().chain(by_hyperperiod()).min().ok_or(OutOfSteps)?;
    busy_period_up_to(far, load, blocking, steps)
}

/// Returns the length of the longest busy period, or `far` if it is no shorter.
pub(crate) fn busy_period_up_to(
    far: u64,
    load: &CpuLoad,
    blocking: u64,
    steps: &mut Steps,
) -> Result<u64, OutOfSteps> {
    // This usually converges in a few rounds. If it converges slowly, the other horizon is good
    // enough.
    const ROUNDS: usize = 64;
    let mut window = blocking.max(1);
    for _ in 0..ROUNDS {
        steps.take(load.tasks.len() + load.reservations.len())?;
        let tasks = load.tasks.iter().map(|task| task.work_in(window));
        let reserved = load.reservations.iter().map(|r| r.interference_in(window));
        let Some(next) = tasks
            .chain(reserved)
            .try_fold(blocking, |sum, work| sum.checked_add(work?))
            .filter(|&next| next < far)
        else {
            return Ok(far);
        };
        if next <= window {
            return Ok(window);
        }
        window = next;
    }
    Ok(far)
}

/// Returns `h(t)` with the given blocking.
pub(crate) fn demand(
    load: &CpuLoad,
    t: u64,
    blocking: u64,
    steps: &mut Steps,
) -> Result<u64, OutOfSteps> {
    steps.take(load.tasks.len() + load.reservations.len())?;
    let tasks = load.tasks.iter().map(|task| {
        let Some(since) = t.checked_sub(task.deadline_after_jitter()) else { return Some(0) };
        (since / task.period + 1).checked_mul(task.work)
    });
    let reserved = load.reservations.iter().map(|r| r.interference_in(t));
    tasks.chain(reserved).try_fold(blocking, |sum, work| sum.checked_add(work?)).ok_or(OutOfSteps)
}

/// Returns the last instant before `end` with a deadline, and the first task that has one there.
pub(crate) fn last_deadline_before(
    load: &CpuLoad,
    end: u64,
    steps: &mut Steps,
) -> Result<Option<(u64, usize)>, OutOfSteps> {
    steps.take(load.tasks.len())?;
    let mut last: Option<(u64, usize)> = None;
    for (at, task) in load.tasks.iter().enumerate() {
        let first = task.deadline_after_jitter();
        let Some(since) = end.checked_sub(first).and_then(|since| since.checked_sub(1)) else {
            continue;
        };
        let deadline = first + since / task.period * task.period;
        if last.is_none_or(|(latest, _)| deadline > latest) {
            last = Some((deadline, at));
        }
    }
    Ok(last)
}
