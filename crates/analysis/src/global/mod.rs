//! Global scheduling: one queue for several CPUs, jobs move between them.
//!
//! | file | what |
//! |---|---|
//! | [`fixed_priority`] | response times, with few tasks that were busy before the window |
//! | [`workload`] | response times from the most that each task can do in a window, both policies |
//! | [`density`] | a cheap test for earliest deadline first |
//!
//! # Assumptions of all
//! - Tasks are sporadic and independent, preemptible anywhere at no cost, free to move between
//!   identical CPUs at no cost, and never on two at once; deadlines are not beyond the period.
//! - No release jitter, no quanta, no last segments, no reservations. Where a load has one of these
//!   nothing is proven: every answer is "no".
//! - Time is discrete, a nanosecond a tick: the "+ 1" in the formulas.
//!
//! All tests are sufficient, none is necessary. No command uses them: admission is partitioned.

pub mod density;
pub mod fixed_priority;
pub mod workload;

use crate::load::CpuLoad;

/// Which assumption `load` breaks.
fn assumption_broken(load: &CpuLoad) -> Option<&'static str> {
    let any = |broken: fn(&crate::load::TaskLoad) -> bool| load.tasks.iter().any(broken);
    if any(|task| task.deadline > task.period) {
        Some("assumes deadlines no longer than periods, but some are longer")
    } else if any(|task| task.jitter > 0) {
        Some("assumes no release jitter, but some tasks have it")
    } else if any(|task| task.quantum > 0 || task.last > 0) {
        Some("assumes tasks that are preemptible anywhere, but some are not")
    } else if !load.reservations.is_empty() {
        Some("assumes no reservations, but there is one")
    } else {
        None
    }
}
