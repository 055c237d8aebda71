//! Exact response times under fixed priorities, for each model of preemption.
//!
//! | file | a job may be preempted by a more urgent one |
//! |---|---|
//! | [`floating`] | anywhere but in quanta, which may lie anywhere; without quanta: everywhere |
//! | [`last_segment`] | anywhere but in quanta, the last of which is at the end of the job |
//! | [`non_preemptive`] | never |
//!
//! One recurrence serves all three: `busy_window.rs`. Beside them, [`suspension`] has bounds for
//! tasks that suspend themselves.

mod busy_window;
pub mod floating;
pub mod last_segment;
pub mod non_preemptive;
pub mod suspension;

use alloc::vec::Vec;

use punctual_model::Duration;

use self::busy_window::{FirstWindow, levels};
use crate::load::{CpuLoad, Granularity};
use crate::steps::Steps;

/// The result for one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseTime {
    /// No job takes longer, from nominal release to completion.
    AtMost(Duration),
    /// Response times grow without end: the task and those above it need more than one CPU.
    Unbounded,
    /// Not decided within the steps; some job may take this long.
    Undecided {
        /// A lower bound of the worst response time.
        at_least: Duration,
    },
}

impl ResponseTime {
    /// Returns the proven bound, if there is one.
    pub fn bound(self) -> Option<Duration> {
        match self {
            Self::AtMost(bound) => Some(bound),
            Self::Unbounded | Self::Undecided { .. } => None,
        }
    }

    fn meets(self, deadline: u64) -> bool {
        self.bound().is_some_and(|bound| bound.as_nanos() <= deadline)
    }
}

/// Returns the response time of each task of `load`, in its order, in continuous time, with the
/// quanta and last segments that its tasks declare.
pub fn response_times(load: &CpuLoad, steps: &mut Steps) -> Vec<ResponseTime> {
    of_every_level(load, Granularity::Continuous, steps)
}

/// Returns the response time of the task at a position of `load` alone.
pub(crate) fn response_time_of(load: &CpuLoad, at: usize, steps: &mut Steps) -> ResponseTime {
    let level = levels(load, Granularity::Continuous).nth(at);
    let undecided = ResponseTime::Undecided { at_least: Duration::ZERO };
    level.map_or(undecided, |level| {
        level.response_time(&mut FirstWindow::default(), u64::MAX, steps)
    })
}

/// Returns whether every task of `load` certainly meets its deadline. Cheaper than
/// [`response_times`].
pub fn all_in_time(load: &CpuLoad, steps: &mut Steps) -> bool {
    let mut first = FirstWindow::default();
    levels(load, Granularity::Continuous).all(|level| {
        level.in_time_by_one_look(steps)
            || level
                .response_time(&mut first, level.task.deadline, steps)
                .meets(level.task.deadline)
    })
}

/// Returns a task that is certainly late, and how long some job of it can take. The search goes up
/// from the least urgent task, where a miss is likely, within `steps` in all and `each` per task.
///
/// With thousands of tasks near a utilisation of one, the exact response time may take too long to
/// find, but a few rounds already show that it exceeds the deadline.
pub(crate) fn certainly_late(
    load: &CpuLoad,
    steps: &mut Steps,
    each: u64,
) -> Option<(usize, Duration)> {
    let levels: Vec<_> = levels(load, Granularity::Continuous).collect();
    for (at, level) in levels.iter().enumerate().rev() {
        let before = steps.left().min(each);
        let mut own = Steps::new(before);
        let deadline = level.task.deadline;
        // The search for a bound ends as soon as one job is beyond the deadline.
        let time = level.response_time(&mut FirstWindow::default(), deadline, &mut own);
        let seen = match time {
            ResponseTime::AtMost(worst) => worst,
            ResponseTime::Undecided { at_least } => at_least,
            ResponseTime::Unbounded => Duration::ZERO,
        };
        if seen.as_nanos() > deadline {
            return Some((at, seen));
        }
        steps.give_up(before - own.left());
        if steps.left() == 0 {
            return None;
        }
    }
    None
}

fn of_every_level(
    load: &CpuLoad,
    granularity: Granularity,
    steps: &mut Steps,
) -> Vec<ResponseTime> {
    let mut times = Vec::with_capacity(load.tasks.len());
    let mut first = FirstWindow::default();
    for level in levels(load, granularity) {
        times.push(level.response_time(&mut first, u64::MAX, steps));
    }
    times
}
