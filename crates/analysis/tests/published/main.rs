//! Published answers, each under its id in the project's collection of oracles.
//!
//! Some are beside the code they check: the bounds of FP-12 (`ratio.rs`), LBAP-01 (`load.rs`),
//! SBF-01 (`supply/bound.rs`), RSV-01 (`supply/region.rs`), and the response times of EDF-01
//! (`edf`), which has a wcet above its deadline and so cannot be a contract.
//!
//! There is one file for each family of tests: `fixed_priority` (preemptive), `limited_preemption`,
//! `utilisation_tests`, `dynamic_order` (earliest deadline, first in first out), `multiprocessor`.

#[path = "../common/mod.rs"]
mod common;
mod dynamic_order;
mod fixed_priority;
mod limited_preemption;
mod multiprocessor;
mod utilisation_tests;

use common::{TICK, Ticks};
use punctual_analysis::{Granularity, Shortfall};
use punctual_model::Duration;

const DISCRETE: Granularity = Granularity::Ticks(TICK);

fn late_by(ticks: u64) -> Shortfall {
    Shortfall::Time(Duration::from_nanos(ticks * TICK))
}

fn known<const N: usize>(ticks: [u64; N]) -> Vec<Option<u64>> {
    ticks.into_iter().map(Some).collect()
}

fn with_quanta(tasks: &[(u64, u64, u64)]) -> Vec<Ticks> {
    tasks
        .iter()
        .map(|&(wcet, period, quantum)| Ticks { quantum, ..Ticks::plain(wcet, period) })
        .collect()
}
