//! Exact response times under fixed priorities.
//!
//! # The bound
//! For task i, with hp(i) the more urgent tasks and the window of its job q (from 0) starting when
//! the processor last had nothing of rank i or above to do:
//!
//! ```text
//! w_q = B_i + (q + 1)·C_i + Σ_{j ∈ hp(i)} ⌈(w_q + J_j) / T_j⌉·C_j + Σ_r I_r(w_q)
//! R_i = J_i + max_q (w_q − q·T_i)      over q = 0, 1, … until w_q + J_i ≤ (q + 1)·T_i
//! ```
//!
//! # Assumptions
//! - Tasks are sporadic and independent, and do not suspend themselves; a job's processor time is
//!   at most its wcet (two context switches are charged on top).
//! - `B_i` is the largest quantum of a less urgent task: a quantum may begin anywhere in a job
//!   (floating), so the last one is not known to protect the job itself. Time is continuous: the
//!   whole quantum counts. It is the exact value for this model, and an upper bound for RMDP,
//!   whose own last quantum is not preempted either.
//! - A reservation r is above all tasks ([`ReservedLoad::interference_in`]): an upper bound, so
//!   with reservations the response times are bounds and no longer exact.
//!
//! # Sources
//! Joseph & Pandya, 1986 (the fixed point); Lehoczky, RTSS 1990, Theorem 1 (deadlines beyond the
//! period: every job of the busy window); Audsley, Burns, Richardson, Tindell & Wellings, 1993
//! (blocking and release jitter).
//!
//! # Units and answers
//! Nanoseconds from the nominal release, so the task's own jitter is in the response. A utilisation
//! of i and hp(i) above one has no bound. At exactly one or below, the jobs repeat after a
//! hyperperiod (`Level::repetition` says why). Whatever [`Steps`] do not reach stays undecided.

use alloc::vec::Vec;

use punctual_model::Duration;

use crate::load::{CpuLoad, TaskLoad};
use crate::ratio::{Ratio, Utilisation};
use crate::reservation::ReservedLoad;
use crate::steps::{OutOfSteps, Steps};

/// The answer for one task.
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
    /// The proven bound, if there is one.
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

/// The response time of each task of `load`, in its order.
pub fn response_times(load: &CpuLoad, steps: &mut Steps) -> Vec<ResponseTime> {
    let mut times = Vec::with_capacity(load.tasks.len());
    let mut first = FirstWindow::default();
    for level in levels(load) {
        times.push(level.response_time(&mut first, u64::MAX, steps));
    }
    times
}

/// Whether every task of `load` certainly meets its deadline; cheaper than [`response_times`].
pub fn all_in_time(load: &CpuLoad, steps: &mut Steps) -> bool {
    let mut first = FirstWindow::default();
    levels(load).all(|level| {
        level.in_time_by_one_look(steps)
            || level
                .response_time(&mut first, level.task.deadline, steps)
                .meets(level.task.deadline)
    })
}

/// One task with everything that delays it.
struct Level<'a> {
    task: TaskLoad,
    higher: &'a [TaskLoad],
    reservations: &'a [ReservedLoad],
    blocking: u64,
    /// Of `higher` and `reservations`.
    above: Utilisation,
    /// Of those and the task.
    total: Utilisation,
}

fn levels(load: &CpuLoad) -> impl Iterator<Item = Level<'_>> {
    let blocking = blocking_bounds(&load.tasks);
    let mut total = load.reserved();
    load.tasks.iter().enumerate().map(move |(at, &task)| {
        let above = total;
        total.add(task.work, task.period);
        Level {
            task,
            higher: &load.tasks[..at],
            reservations: &load.reservations,
            blocking: blocking[at],
            above,
            total,
        }
    })
}

/// For each task the largest quantum of a less urgent one.
fn blocking_bounds(tasks: &[TaskLoad]) -> Vec<u64> {
    let mut largest = 0;
    let mut bounds: Vec<u64> = tasks
        .iter()
        .rev()
        .map(|task| {
            let below = largest;
            largest = largest.max(task.quantum);
            below
        })
        .collect();
    bounds.reverse();
    bounds
}

/// The first window of the task above, where the next one's search may start. If both have the
/// same blocking bound, the next window is longer by at least that task's work: with
/// `f_i(w) ≥ C_i + f_{i−1}(w)`, the least fixed point of `f_i` less `C_i` is not below that of
/// `f_{i−1}`.
#[derive(Default)]
struct FirstWindow {
    blocking: u64,
    length: u64,
}

impl Level<'_> {
    /// Sufficient, at the price of one evaluation, and true for most tasks of most systems: if all
    /// work that can come before the deadline also fits before it, the first job is in time, and
    /// with a deadline within the period it is the only one of its busy window.
    fn in_time_by_one_look(&self, steps: &mut Steps) -> bool {
        let window = self.task.deadline_after_jitter();
        self.task.deadline <= self.task.period
            && self
                .blocking
                .checked_add(self.task.work)
                .is_some_and(|own| self.demand(own, window, steps).is_ok_and(|due| due <= window))
    }

    /// Looks at jobs until the worst is known, or until one takes longer than `enough`.
    fn response_time(
        &self,
        first: &mut FirstWindow,
        enough: u64,
        steps: &mut Steps,
    ) -> ResponseTime {
        if self.total.exceeds_one() {
            return ResponseTime::Unbounded;
        }
        let mut worst = 0;
        match self.longest(first, enough, &mut worst, steps) {
            Ok(()) => ResponseTime::AtMost(Duration::from_nanos(worst)),
            Err(OutOfSteps) => ResponseTime::Undecided { at_least: Duration::from_nanos(worst) },
        }
    }

    fn longest(
        &self,
        first: &mut FirstWindow,
        enough: u64,
        worst: &mut u64,
        steps: &mut Steps,
    ) -> Result<(), OutOfSteps> {
        let TaskLoad { work, period, jitter, .. } = self.task;
        let repetition = self.repetition();
        let mut own = self.blocking.checked_add(work).ok_or(OutOfSteps)?;
        let mut window = own;
        if first.blocking == self.blocking {
            window = window.max(first.length.checked_add(work).ok_or(OutOfSteps)?);
        }
        // Nominal release of the job, counted from the first.
        let mut release = 0;
        for job in 0.. {
            // A lower bound of the response, so that even an undecided answer says something.
            window = window.max(self.least_window(own)?);
            window = self.completion(own, window, release, worst, steps)?;
            if job == 0 {
                *first = FirstWindow { blocking: self.blocking, length: window };
            }
            let busy = window.checked_add(jitter).ok_or(OutOfSteps)?;
            release = u64::checked_add(release, period).ok_or(OutOfSteps)?;
            let window_closed = busy <= release;
            if window_closed || *worst > enough || Some(job + 1) == repetition {
                return Ok(());
            }
            own = own.checked_add(work).ok_or(OutOfSteps)?;
            window = window.checked_add(work).ok_or(OutOfSteps)?;
        }
        Err(OutOfSteps)
    }

    /// The fixed point from `window`, which must not be above it. Every value on the way is a
    /// lower bound of the completion, so it raises `worst`.
    fn completion(
        &self,
        own: u64,
        mut window: u64,
        release: u64,
        worst: &mut u64,
        steps: &mut Steps,
    ) -> Result<u64, OutOfSteps> {
        loop {
            let busy = window.checked_add(self.task.jitter).ok_or(OutOfSteps)?;
            // A later job is released inside the window, so the difference is not negative.
            *worst = (*worst).max(busy.saturating_sub(release));
            let next = self.demand(own, window, steps)?;
            if next <= window {
                return Ok(window);
            }
            window = next;
        }
    }

    /// `own` and all that arrives above the task in `window`.
    fn demand(&self, own: u64, window: u64, steps: &mut Steps) -> Result<u64, OutOfSteps> {
        steps.take(self.higher.len() + self.reservations.len() + 1)?;
        let from_tasks =
            self.higher.iter().try_fold(own, |sum, task| sum.checked_add(task.work_in(window)?));
        self.reservations
            .iter()
            .try_fold(from_tasks.ok_or(OutOfSteps)?, |sum, reservation| {
                sum.checked_add(reservation.interference_in(window)?)
            })
            .ok_or(OutOfSteps)
    }

    /// `own / (1 − U)`: no window is shorter, because what is above takes at least its share.
    fn least_window(&self, own: u64) -> Result<u64, OutOfSteps> {
        Ratio::ONE.minus(self.above.below()).divide_up(own).ok_or(OutOfSteps)
    }

    /// After how many jobs the rest can be no worse.
    ///
    /// Let H be a common multiple of all periods, and the utilisation at most one. Then
    /// `f_{q + H/T}(w + H) ≤ f_q(w) + H`, so `w_{q + H/T} ≤ w_q + H`: the job H later does not
    /// take longer. So a utilisation of exactly one has a bound too, even where blocking or
    /// jitter keep the busy window open for ever.
    fn repetition(&self) -> Option<u64> {
        self.total.hyperperiod_within_one().map(|hyperperiod| hyperperiod / self.task.period)
    }
}
