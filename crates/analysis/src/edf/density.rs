//! Earliest deadline first: the density test, which costs one sum.

use alloc::format;

use crate::load::{CpuLoad, TaskLoad};
use crate::ratio::Utilisation;
use crate::utilisation::Finding;

/// Tests `Σ C_i/min(d_i, T_i) + B/d_min ≤ 1`, with `d_i = D_i − J_i` and B the longest quantum of a
/// task whose d is not the least.
///
/// # Assumptions
/// Those of [`super::demand`], and no reservation on the same CPU. If every deadline is at or after
/// the end of its period and there are no quanta and no jitter, this is the exact test of Liu &
/// Layland.
///
/// # Source, units and answers
/// Liu & Layland, JACM 20(1), 1973, Theorem 7; with densities for shorter deadlines, Liu, Real-Time
/// Systems, 2000, Theorem 6.2. The sum has no unit. It is exact if its common period fits in 64
/// bits, and else rounded up. If an assumption does not hold, the test does not admit and names the
/// assumption.
///
/// # Why it implies [`super::demand`]
/// With `m_i = min(d_i, T_i)`: for `t ≥ d_i` a task has at most `(t − d_i)/T_i + 1 ≤ t/m_i` jobs
/// due (equal at `t = d_i ≤ T_i`, and the left side grows no faster; for `d_i > T_i` it is below
/// `t/T_i`). Blocking at `t ≥ d_min` is at most `B ≤ B·t/d_min`. So `h(t) ≤ t·(the left side)`.
pub fn density(load: &CpuLoad) -> Finding {
    if !load.reservations.is_empty() {
        let why = "assumes no reservation or channel on the same CPU, but there is one".into();
        return Finding { admits: false, why };
    }
    let mut sum = Utilisation::ZERO;
    for task in &load.tasks {
        sum.add(task.work, task.deadline_after_jitter().min(task.period));
    }
    let least = load.tasks.iter().map(TaskLoad::deadline_after_jitter).min().unwrap_or(1);
    let blocks = |task: &&TaskLoad| task.deadline_after_jitter() > least;
    let quanta = load.tasks.iter().filter(blocks).map(|task| task.quantum);
    let blocking = quanta.max().unwrap_or(0).max(load.wake_up);
    sum.add(blocking, least);
    let admits = sum.is_at_most_one();
    let (relation, what) = (
        if admits { "within" } else { "above" },
        if blocking > 0 { "density with blocking" } else { "density" },
    );
    // Rounded up for display, but never across the bound.
    let shown = if admits { sum.above().min(crate::ratio::Ratio::ONE) } else { sum.above() };
    Finding { admits, why: format!("{what} {shown} is {relation} 100 %") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edf::demand::{DemandVerdict, processor_demand};
    use crate::steps::Steps;
    use alloc::vec::Vec;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Builds a load from `(work, period, deadline, jitter, quantum)`.
    fn load(tasks: &[(u64, u64, u64, u64, u64)]) -> CpuLoad {
        let of = |&(work, period, deadline, jitter, quantum): &(u64, u64, u64, u64, u64)| {
            TaskLoad { work, wcet: work, high: 0, period, deadline, jitter, quantum, last: 0 }
        };
        CpuLoad { tasks: tasks.iter().map(of).collect(), reservations: Vec::new(), wake_up: 0 }
    }

    /// The test is exact at one: thirds have no finite binary fraction.
    #[test]
    fn a_whole_cpu_is_within_the_bound_and_a_nanosecond_more_is_not() {
        let thirds = density(&load(&[(1, 3, 3, 0, 0), (2, 6, 6, 0, 0), (1, 3, 9, 0, 0)]));
        assert!(thirds.admits, "{}", thirds.why);
        assert_eq!(thirds.why, "density 100.0 % is within 100 %");
        let more = [(1, 3, 3, 0, 0), (2, 6, 6, 0, 0), (1_001, 3_000, 3_000, 0, 0)];
        assert_eq!(density(&load(&more)).why, "density 100.0334 % is above 100 %");
    }

    /// Processor demand admits whatever the density test admits, with any deadlines, jitter and
    /// quanta; and the two are not the same test.
    #[test]
    fn the_density_test_implies_processor_demand() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let (mut cheap, mut exact, mut with_blocking) = (0, 0, 0);
        for round in 0..20_000 {
            let tasks: Vec<_> = (0..rng.random_range(1..=5))
                .map(|_| {
                    let period = rng.random_range(2..60u64);
                    let work = rng.random_range(1..=period.div_ceil(4));
                    let deadline = rng.random_range(work..=2 * period);
                    let jitter = rng.random_range(0..=(deadline - 1).min(period / 2));
                    let quantum = if rng.random() { 0 } else { rng.random_range(0..=work) };
                    (work, period, deadline, jitter, quantum)
                })
                .collect();
            let load = load(&tasks);
            let fits = processor_demand(&load, &mut Steps::default()) == DemandVerdict::Fits;
            let admits = density(&load).admits;
            assert!(fits || !admits, "round {round}: {tasks:?}");
            exact += u32::from(fits);
            cheap += u32::from(admits);
            with_blocking += u32::from(admits && tasks.iter().any(|task| task.4 > 0));
        }
        assert!(with_blocking > 500 && cheap > 1_000 && 4 * exact > 5 * cheap, "{cheap} {exact}");
    }
}
