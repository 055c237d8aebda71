//! Cheap tests for shorter-period-first: sufficient, not necessary.
//!
//! A "no" from one of them is not a refusal; [`crate::fixed_priority`] decides. All are evaluated
//! with the left side rounded up and the right side rounded down, or exactly.
//!
//! | test | quanta | admits | costs |
//! |---|---|---|---|
//! | [`liu_layland`] | no | least | one sum |
//! | [`hyperbolic`] | no | all that `liu_layland` does | one product |
//! | [`rmdp`] | yes | less than `sha` | one sum |
//! | [`sha`] | yes | all that `rmdp` does | one sum and one bound per task |

use alloc::format;
use alloc::string::String;

use punctual_model::units::percent;

use crate::load::CpuLoad;
use crate::ratio::{Ratio, gcd};

/// The result of a test, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether the test admits.
    pub admits: bool,
    /// The numbers, or the assumption that does not hold.
    pub why: String,
}

/// The Liu & Layland test: `Σ C_i/T_i ≤ n(2^{1/n} − 1)`.
///
/// # Assumptions
/// Shorter period first (ties in any order), preemptible anywhere (no quanta), deadlines not before
/// the end of the period, no release jitter, no reservation on the same CPU, independent tasks.
///
/// # Source, units and answers
/// Liu & Layland, JACM 20(1), 1973, Theorem 5. Utilisations have no unit. If an assumption does not
/// hold, the test does not admit and names the assumption.
pub fn liu_layland(load: &CpuLoad) -> Finding {
    let broken = quanta_or_common_assumption_broken(load);
    decide(load, broken, load.utilisation().above(), "utilisation")
}

/// The hyperbolic test: `Π (C_i/T_i + 1) ≤ 2`.
///
/// # Assumptions
/// As for Liu & Layland.
///
/// # Source, units and answers
/// Bini, Buttazzo & Buttazzo, IEEE ToC 52(7), 2003, Theorem 1. No unit. The product is exact while
/// its reduced fraction fits in 128 bits, and else rounded up. If an assumption does not hold, the
/// test does not admit and names the assumption.
///
/// # Why it admits all that Liu & Layland do
/// Among all sets with the same sum, the product is largest if all shares are equal; and there both
/// tests are the same. (A rounded product may still refuse a set that is exactly at the bound.)
pub fn hyperbolic(load: &CpuLoad) -> Finding {
    if let Some(broken) = quanta_or_common_assumption_broken(load) {
        return Finding { admits: false, why: broken.into() };
    }
    let shares = || load.tasks.iter().map(|task| (task.work, task.period));
    let rounded = shares()
        .map(|(work, period)| Ratio::above(work, period).plus(Ratio::ONE))
        .fold(Ratio::ONE, Ratio::times_above);
    let two = Ratio::ONE.plus(Ratio::ONE);
    let admits = rounded <= two || product_is_at_most_two(shares()) == Some(true);
    let relation = if admits { "within" } else { "above" };
    // Printed with six decimals, rounded up but never across the bound.
    let product = if admits { rounded.min(two) } else { rounded }.ppm_above();
    let product = format!("{}.{:06}", product / 1_000_000, product % 1_000_000);
    Finding { admits, why: format!("product of 1 + utilisation {product} is {relation} 2") }
}

/// Returns whether `Π (work/period + 1) ≤ 2`, exactly, or `None` beyond 128 bits.
fn product_is_at_most_two(shares: impl Iterator<Item = (u64, u64)>) -> Option<bool> {
    let (mut above, mut below) = (1u128, 1u128);
    for (work, period) in shares {
        above = above.checked_mul(u128::from(work) + u128::from(period))?;
        below = below.checked_mul(u128::from(period))?;
        let common = gcd(above, below);
        (above, below) = (above / common, below / common);
    }
    Some(above <= below.checked_mul(2)?)
}

/// The RMDP test as printed: `Σ C_i/T_i + c_max·(1/T_1 − 1/T_n) ≤ n(2^{1/n} − 1)`, with `c_max` the
/// largest quantum, `T_1` the shortest and `T_n` the longest period.
///
/// # Assumptions
/// As for Liu & Layland, but tasks may have quanta.
///
/// # Source, units and answers
/// Real-time upcalls, §5.3. No unit. If an assumption does not hold, the test does not admit and
/// names the assumption.
///
/// # Why it is sound
/// It implies the test of Sha, Rajkumar & Lehoczky (1990) for every task i, blocked by a quantum
/// `c_j ≤ C_j` of a less urgent j: `c_j/T_i ≤ c_j/T_j + c_j·(1/T_1 − 1/T_n) ≤ C_j/T_j +
/// c_max·(1/T_1 − 1/T_n)`, and `C_j/T_j` is part of the sum but not of the first i terms. (`c_max`
/// need not count the quantum of the shortest period; as printed it does.)
pub fn rmdp(load: &CpuLoad) -> Finding {
    decide(load, common_assumption_broken(load), rmdp_left_side(load), "utilisation with blocking")
}

/// Returns the left side of the RMDP test, rounded up.
pub fn rmdp_left_side(load: &CpuLoad) -> Ratio {
    let periods = || load.tasks.iter().map(|task| task.period);
    let largest = load.tasks.iter().map(|task| task.quantum).max();
    let blocking = match (periods().min(), periods().max(), largest) {
        (Some(shortest), Some(longest), Some(quantum)) => {
            // A wake-up is not part of any task's work, so nothing of it is counted twice.
            let quantum = Ratio::above(quantum, shortest).minus(Ratio::below(quantum, longest));
            quantum.max(Ratio::above(load.wake_up, shortest))
        }
        _ => Ratio::ZERO,
    };
    load.utilisation().above().plus(blocking)
}

/// The test of Sha, Rajkumar & Lehoczky for every task:
/// `∀i: Σ_{k≤i} C_k/T_k + B_i/T_i ≤ i(2^{1/i} − 1)`, with `B_i` the largest quantum of a task with
/// a longer period.
///
/// # Assumptions
/// As for RMDP, and the tasks of the load are in the order of their periods.
///
/// # Source, units and answers
/// Sha, Rajkumar & Lehoczky, IEEE ToC 39(9), 1990, Theorem 16; there the blocking comes from
/// semaphores. No unit. If an assumption does not hold, the test does not admit and names the
/// assumption.
///
/// # Why it admits all that RMDP does
/// [`rmdp`] explains why its left side is not below any of these; and the bound falls with i.
pub fn sha(load: &CpuLoad) -> Finding {
    let broken = if load.tasks.is_sorted_by_key(|task| task.period) {
        common_assumption_broken(load)
    } else {
        Some("assumes that a shorter period is more urgent, but some are less")
    };
    if let Some(broken) = broken {
        return Finding { admits: false, why: broken.into() };
    }
    let count = load.tasks.len();
    let mut used = Ratio::ZERO;
    for (at, (task, blocking)) in load.tasks.iter().zip(load.blocking_bounds()).enumerate() {
        // One division for both: a job and a blocker that fill the first period do so exactly.
        let left = used.plus(Ratio::above(task.work.saturating_add(blocking), task.period));
        used = used.plus(Ratio::above(task.work, task.period));
        // The limit of the bounds is below each, and costs nothing.
        if left <= Ratio::LN_2 {
            continue;
        }
        let bound = Ratio::liu_layland_bound(at + 1);
        if left > bound {
            let (first, bound) = (at + 1, at_most(bound));
            let why = format!(
                "for the first {first} of {count} tasks utilisation with blocking {left} is above \
                 {bound}"
            );
            return Finding { admits: false, why };
        }
    }
    let why = format!("utilisation with blocking is within the bound for each of {count} tasks");
    Finding { admits: true, why }
}

fn quanta_or_common_assumption_broken(load: &CpuLoad) -> Option<&'static str> {
    if load.tasks.iter().any(|task| task.quantum > 0) {
        Some("assumes tasks that are preemptible anywhere, but some have a quantum")
    } else if load.wake_up > 0 {
        Some("assumes threads that wake up at once, but on this host they do not")
    } else {
        common_assumption_broken(load)
    }
}

fn common_assumption_broken(load: &CpuLoad) -> Option<&'static str> {
    if load.tasks.iter().any(|task| task.deadline < task.period) {
        Some("assumes deadlines no shorter than periods, but some are shorter")
    } else if load.tasks.iter().any(|task| task.jitter > 0) {
        Some("assumes no release jitter, but some tasks have it")
    } else if !load.reservations.is_empty() {
        Some("assumes no reservation or channel on the same CPU, but there is one")
    } else {
        None
    }
}

fn decide(load: &CpuLoad, broken: Option<&str>, left: Ratio, what: &str) -> Finding {
    if let Some(broken) = broken {
        return Finding { admits: false, why: broken.into() };
    }
    let bound = Ratio::liu_layland_bound(load.tasks.len());
    let admits = left <= bound;
    let relation = if admits { "within" } else { "above" };
    let count = load.tasks.len();
    let noun = if count == 1 { "task" } else { "tasks" };
    Finding {
        admits,
        why: format!(
            "{what} {left} is {relation} {}, the bound for {count} {noun}",
            at_most(bound)
        ),
    }
}

/// Formats a right side, rounded down.
fn at_most(bound: Ratio) -> String {
    percent(u64::try_from(bound.ppm_below()).unwrap_or(u64::MAX))
}
