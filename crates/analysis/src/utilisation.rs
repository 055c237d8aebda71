//! Two cheap tests for shorter-period-first: sufficient, not necessary.
//!
//! A "no" from either refuses nobody; [`crate::response_time`] decides. Both are evaluated with
//! the left side rounded up and the right side rounded down.

use alloc::format;
use alloc::string::String;

use crate::load::CpuLoad;
use crate::ratio::Ratio;

/// What a test says, and why.
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
/// Shorter period first (ties any way), preemptible anywhere (no quanta), deadlines not before the
/// end of the period, no release jitter, no reservation on the same CPU, independent tasks.
///
/// # Source, units and answers
/// Liu & Layland, JACM 20(1), 1973, Theorem 5. Utilisations have no unit. Where an assumption does
/// not hold it does not admit, and says which.
pub fn liu_layland(load: &CpuLoad) -> Finding {
    let broken = if load.tasks.iter().any(|task| task.quantum > 0) {
        Some("assumes tasks that are preemptible anywhere, but some have a quantum")
    } else {
        common_assumption_broken(load)
    };
    decide(load, broken, load.utilisation().above(), "utilisation")
}

/// The RMDP test as printed: `Σ C_i/T_i + c_max·(1/T_1 − 1/T_n) ≤ n(2^{1/n} − 1)`, with `c_max` the
/// largest quantum, `T_1` the shortest and `T_n` the longest period.
///
/// # Assumptions
/// As Liu & Layland, but tasks may have quanta.
///
/// # Source, units and answers
/// Real-time upcalls, §5.3. No unit. Where an assumption does not hold it does not admit, and says
/// which.
///
/// # Why it is sound
/// It implies the test of Sha, Rajkumar & Lehoczky (1990) for every task i, blocked by a quantum
/// `c_j ≤ C_j` of a less urgent j: `c_j/T_i ≤ c_j/T_j + c_j·(1/T_1 − 1/T_n) ≤ C_j/T_j +
/// c_max·(1/T_1 − 1/T_n)`, and `C_j/T_j` is part of the sum but not of the first i terms.
/// (`c_max` need not count the quantum of the shortest period; as printed it does.)
pub fn rmdp(load: &CpuLoad) -> Finding {
    decide(load, common_assumption_broken(load), rmdp_left_side(load), "utilisation with blocking")
}

/// The RMDP test with the bound for infinitely many tasks: admits less, and costs least.
pub(crate) fn at_a_glance(load: &CpuLoad) -> bool {
    common_assumption_broken(load).is_none() && rmdp_left_side(load) <= Ratio::LN_2
}

/// The left side of the RMDP test, rounded up.
pub fn rmdp_left_side(load: &CpuLoad) -> Ratio {
    let periods = || load.tasks.iter().map(|task| task.period);
    let largest = load.tasks.iter().map(|task| task.quantum).max();
    let blocking = match (periods().min(), periods().max(), largest) {
        (Some(shortest), Some(longest), Some(quantum)) => {
            Ratio::above(quantum, shortest).minus(Ratio::below(quantum, longest))
        }
        _ => Ratio::ZERO,
    };
    load.utilisation().above().plus(blocking)
}

fn common_assumption_broken(load: &CpuLoad) -> Option<&'static str> {
    if load.tasks.iter().any(|task| task.deadline < task.period) {
        Some("assumes deadlines no shorter than periods, but some are shorter")
    } else if load.tasks.iter().any(|task| task.jitter > 0) {
        Some("assumes no release jitter, but some tasks have it")
    } else if !load.reservations.is_empty() {
        Some("assumes no reservation on the same CPU, but there is one")
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
    let ppm = bound.ppm_below();
    let count = load.tasks.len();
    let noun = if count == 1 { "task" } else { "tasks" };
    Finding {
        admits,
        why: format!(
            "{what} {left} is {relation} {}.{:06}, the bound for {count} {noun}",
            ppm / 1_000_000,
            ppm % 1_000_000
        ),
    }
}
