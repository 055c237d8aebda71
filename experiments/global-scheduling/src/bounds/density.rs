//! Global earliest deadline first: the density test.

use punctual_analysis::ratio::Ratio;
use punctual_analysis::utilisation::Finding;
use punctual_model::Task;

use super::{Ticks, assumption_broken};

/// `Σ δ_i ≤ m − (m − 1)·δ_max` with the densities `δ_i = C_i/D_i`, on `cpus` CPUs.
///
/// # Source, units and answers
/// Goossens, Funk & Baruah, Real-Time Systems 25, 2003, Theorem 5, for deadlines at the end of the
/// period; with shorter deadlines the densities stand for the utilisations (a task of period D_i
/// asks for more). No unit. The left side is rounded up and the right side down, so rounding can
/// refuse but never admit. The assumptions are those of [`super`].
pub fn density(tasks: &[Task], cpus: u16) -> Finding {
    if let Some(broken) = assumption_broken(tasks) {
        return Finding { admits: false, why: broken.into() };
    }
    let densities =
        || tasks.iter().map(Ticks::from).map(|task| Ratio::above(task.work, task.deadline));
    let sum = densities().fold(Ratio::ZERO, Ratio::plus);
    let largest = densities().max().unwrap_or(Ratio::ZERO);
    // m − (m − 1)·δ = 1 + (m − 1)·(1 − δ); with a density above one, nothing fits.
    let rest = Ratio::ONE.minus(largest);
    let bound = (1..cpus.max(1)).fold(Ratio::ONE, |bound, _| bound.plus(rest));
    let admits = cpus > 0 && largest <= Ratio::ONE && sum <= bound;
    let relation = if admits { "within" } else { "above" };
    let bound = bound.ppm_below();
    let (whole, millionths) = (bound / 1_000_000, bound % 1_000_000);
    Finding {
        admits,
        why: format!(
            "density {sum} is {relation} {whole}.{millionths:06}, the bound for {cpus} CPUs and \
             the largest density {largest}"
        ),
    }
}
