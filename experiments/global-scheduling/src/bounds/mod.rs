//! Global scheduling: one queue for several CPUs, between which jobs migrate.
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
//! - No release jitter, no quanta, no last segments. If a task has one of these, nothing is proven:
//!   every answer is "no".
//! - Time is discrete, a nanosecond a tick: the "+ 1" in the formulas.
//!
//! All tests are sufficient, none is necessary.

pub mod density;
pub mod fixed_priority;
pub mod workload;

use punctual_model::{Duration, Task};

/// Returns the assumption that `tasks` break.
fn assumption_broken(tasks: &[Task]) -> Option<&'static str> {
    let any = |broken: fn(&Task) -> bool| tasks.iter().any(broken);
    if any(|task| task.relative_deadline() > task.min_inter_arrival()) {
        Some("assumes deadlines no longer than periods, but some are longer")
    } else if any(|task| !task.release_jitter().is_zero()) {
        Some("assumes no release jitter, but some tasks have it")
    } else if any(|task| !task.quantum().is_zero() || !task.last_segment().is_zero()) {
        Some("assumes tasks that are preemptible anywhere, but some are not")
    } else {
        None
    }
}

/// One task in nanoseconds, as the formulas have it.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    work: u64,
    period: u64,
    deadline: u64,
}

impl From<&Task> for Ticks {
    fn from(task: &Task) -> Self {
        Self {
            work: task.wcet().as_nanos(),
            period: task.min_inter_arrival().as_nanos(),
            deadline: task.relative_deadline().as_nanos(),
        }
    }
}

/// Returns `tasks` in nanoseconds, unless they break an assumption or there is no CPU.
fn in_ticks(tasks: &[Task], cpus: u16) -> Option<Vec<Ticks>> {
    let holds = assumption_broken(tasks).is_none() && cpus > 0;
    holds.then(|| tasks.iter().map(Ticks::from).collect())
}

/// Returns a bound for each of `tasks` tasks: the proven ones, and `None` for the others.
fn padded(bounds: &[u64], tasks: usize) -> Vec<Option<Duration>> {
    (0..tasks).map(|at| bounds.get(at).copied().map(Duration::from_nanos)).collect()
}
