//! The busy window of one task, shared by the models of preemption.
//!
//! # The recurrence
//! Let hp(i) be the more urgent tasks, `B` the blocking bound, and `l` the last segment of a job,
//! and let the window start when the processor last had nothing of rank i or above to do. The last
//! segment of job q (from 0) starts at the least `s` with
//!
//! ```text
//! s   = B_i + (q + 1)·C_i − l_i + Σ_{j ∈ hp(i)} n_j(s)·C_j + Σ_r I_r(s)
//! R_i = J_i + max_q (s_q + l_i − q·T_i)
//! ```
//!
//! over the jobs q = 0, 1, … that are released before the window closes.
//!
//! # Which releases count at `s` itself
//! - A segment of no length (`l = 0`) only ends there: `n_j(s) = ⌈(s + J_j)/T_j⌉`.
//! - A segment that starts at `s` loses to a release at `s`: `n_j(s) = ⌊(s + J_j)/T_j⌋ + 1`.
//! - But in continuous time a blocker has begun before the window, so `B` is only approached: with
//!   `B − ε` every `s` is earlier, and a release at the limit comes too late. So for `B > 0` the
//!   supremum has the first form (Bril, Lukkien & Verhaegh, Real-Time Systems 42, 2009).
//!
//! # When the window closes
//! It closes when all work of rank i or above is done. For `l > 0` that may be after the last
//! segment, because an arrival during the segment delays the next job ("self-pushing": Davis,
//! Burns, Bril & Lukkien, Real-Time Systems 35, 2007). The work done until then does not depend on
//! `l`, so the end is the least `w = B_i + (q + 1)·C_i + Σ ⌈(w + J_j)/T_j⌉·C_j + Σ I_r(w)`, never
//! before `s + l`; the window is closed if `w + J_i ≤ (q + 1)·T_i`.

use alloc::vec::Vec;

use punctual_model::Duration;

use super::ResponseTime;
use crate::load::{CpuLoad, Granularity, TaskLoad};
use crate::ratio::{Ratio, Utilisation};
use crate::reservation::ReservedLoad;
use crate::steps::{OutOfSteps, Steps};

/// One task with everything that delays it.
pub(super) struct Level<'a> {
    pub(super) task: TaskLoad,
    higher: &'a [TaskLoad],
    reservations: &'a [ReservedLoad],
    blocking: u64,
    /// The last segment, which nothing of `higher` preempts. It is zero with reservations, because
    /// they preempt it too.
    last: u64,
    /// Whether a release counts at the instant at which the last segment would start.
    closed: bool,
    /// The share of `higher` and `reservations`, rounded down.
    above: Ratio,
    /// The share of those and the task, rounded down and rounded up.
    total: (Ratio, Ratio),
}

pub(super) fn levels(load: &CpuLoad, granularity: Granularity) -> impl Iterator<Item = Level<'_>> {
    // Many systems are small and without blocking, and an allocation is a large part of their cost.
    let blocks = load.wake_up > 0 || load.tasks.iter().any(|task| task.quantum > 0);
    let blocking = if blocks { load.blocking_bounds() } else { Vec::new() };
    let tick = granularity.tick_of(load);
    let reserved = load.reserved();
    let mut total = (reserved.below(), reserved.above());
    load.tasks.iter().enumerate().map(move |(at, &task)| {
        let above = total.0;
        total.0 = total.0.plus(Ratio::below(task.work, task.period));
        total.1 = total.1.plus(Ratio::above(task.work, task.period));
        let last = if load.reservations.is_empty() { task.last } else { 0 };
        let blocking = blocking.get(at).copied().unwrap_or(0);
        Level {
            task,
            higher: &load.tasks[..at],
            reservations: &load.reservations,
            blocking: blocking.saturating_sub(tick),
            last,
            closed: last > 0 && (tick > 0 || blocking == 0),
            above,
            total,
        }
    })
}

/// The first window of the task above, at which the search for the next task may start. If both
/// have the same blocking bound, the next window is longer by at least the next task's work: with
/// `f_i(w) ≥ C_i + f_{i−1}(w)`, the least fixed point of `f_i` less `C_i` is not below that of
/// `f_{i−1}`.
#[derive(Default)]
pub(super) struct FirstWindow {
    blocking: u64,
    length: u64,
}

impl Level<'_> {
    /// Tests by one evaluation whether the task is in time. The test is sufficient, and holds for
    /// most tasks of most systems: if all work that can come before the deadline also fits before
    /// it, the first job is in time, and with a deadline within the period it is the only job of
    /// its busy window.
    pub(super) fn in_time_by_one_look(&self, steps: &mut Steps) -> bool {
        let window = self.task.deadline_after_jitter();
        self.task.deadline <= self.task.period
            && self.blocking.checked_add(self.task.work).is_some_and(|own| {
                self.demand(own, window, false, steps).is_ok_and(|due| due <= window)
            })
    }

    /// Examines jobs until the worst response time is known, or until one exceeds `enough`.
    pub(super) fn response_time(
        &self,
        first: &mut FirstWindow,
        enough: u64,
        steps: &mut Steps,
    ) -> ResponseTime {
        if self.exceeds_one() {
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
        let mut repetition = None;
        // Blocking and the task's own work up to the end of the job.
        let mut own = self.blocking.checked_add(work).ok_or(OutOfSteps)?;
        // A lower bound of the end of the window, if the job is the last in it.
        let mut end = own;
        if first.blocking == self.blocking {
            end = end.max(first.length.checked_add(work).ok_or(OutOfSteps)?);
        }
        // The job's nominal release, counted from the first.
        let mut release = 0;
        for job in 0.. {
            if self.last > 0 {
                // The previous job has left the processor, so its last segment began before that.
                let start = self.start_of_last_segment(own, release, worst, steps)?;
                end = end.max(start.checked_add(self.last).ok_or(OutOfSteps)?);
            }
            // A lower bound of the response time, so that an undecided answer is informative too.
            end = end.max(self.least_window(own)?);
            end = self.end_of_window(own, end, release, worst, steps)?;
            if job == 0 {
                *first = FirstWindow { blocking: self.blocking, length: end };
            }
            let busy = end.checked_add(jitter).ok_or(OutOfSteps)?;
            release = u64::checked_add(release, period).ok_or(OutOfSteps)?;
            let window_closed = busy <= release;
            if window_closed || *worst > enough {
                return Ok(());
            }
            if job == 0 {
                repetition = self.repetition(steps)?;
            }
            if Some(job + 1) == repetition {
                return Ok(());
            }
            own = own.checked_add(work).ok_or(OutOfSteps)?;
            end = end.checked_add(work).ok_or(OutOfSteps)?;
        }
        Err(OutOfSteps)
    }

    /// Returns the start of the job's last segment. Every value on the way to the fixed point is a
    /// lower bound of the start, so it raises `worst`.
    fn start_of_last_segment(
        &self,
        own: u64,
        release: u64,
        worst: &mut u64,
        steps: &mut Steps,
    ) -> Result<u64, OutOfSteps> {
        let before = own - self.last;
        let mut start = self.least_window(before)?;
        loop {
            let response = (start.checked_add(self.last))
                .and_then(|end| end.checked_add(self.task.jitter))
                .ok_or(OutOfSteps)?;
            *worst = (*worst).max(response.saturating_sub(release));
            let next = self.demand(before, start, self.closed, steps)?;
            if next <= start {
                return Ok(start);
            }
            start = next;
        }
    }

    /// Returns the fixed point, starting from `end`, which must not be above it. Without a last
    /// segment the job completes there, and every value on the way is a lower bound, so it raises
    /// `worst`.
    fn end_of_window(
        &self,
        own: u64,
        mut end: u64,
        release: u64,
        worst: &mut u64,
        steps: &mut Steps,
    ) -> Result<u64, OutOfSteps> {
        loop {
            if self.last == 0 {
                let busy = end.checked_add(self.task.jitter).ok_or(OutOfSteps)?;
                // A later job is released inside the window, so the difference is not negative.
                *worst = (*worst).max(busy.saturating_sub(release));
            }
            let next = self.demand(own, end, false, steps)?;
            if next <= end {
                return Ok(end);
            }
            end = next;
        }
    }

    /// Returns `own` and all work that arrives above the task in `[0, window)`, or in `[0, window]`
    /// if `closed`.
    fn demand(
        &self,
        own: u64,
        window: u64,
        closed: bool,
        steps: &mut Steps,
    ) -> Result<u64, OutOfSteps> {
        steps.take(self.higher.len() + self.reservations.len() + 1)?;
        let from_tasks = if closed {
            self.higher.iter().try_fold(own, |sum, task| sum.checked_add(task.work_until(window)?))
        } else {
            self.higher.iter().try_fold(own, |sum, task| sum.checked_add(task.work_in(window)?))
        };
        self.reservations
            .iter()
            .try_fold(from_tasks.ok_or(OutOfSteps)?, |sum, reservation| {
                sum.checked_add(reservation.interference_in(window)?)
            })
            .ok_or(OutOfSteps)
    }

    /// Returns `own / (1 − U)`: no window is shorter, because the load above takes at least its
    /// share.
    fn least_window(&self, own: u64) -> Result<u64, OutOfSteps> {
        Ratio::ONE.minus(self.above).divide_up(own).ok_or(OutOfSteps)
    }

    /// Returns whether the task and all above it certainly need more than the CPU.
    fn exceeds_one(&self) -> bool {
        let (below, above) = self.total;
        below > Ratio::ONE || (above > Ratio::ONE && self.utilisation().exceeds_one())
    }

    /// Returns the utilisation of the task and all above it.
    fn utilisation(&self) -> Utilisation {
        let mut sum = self.reserved();
        self.up_to_here().for_each(|task| sum.add(task.work, task.period));
        sum
    }

    fn reserved(&self) -> Utilisation {
        let mut sum = Utilisation::ZERO;
        self.reservations.iter().for_each(|reservation| reservation.add_to(&mut sum));
        sum
    }

    fn up_to_here(&self) -> impl Iterator<Item = &TaskLoad> {
        self.higher.iter().chain([&self.task])
    }

    /// Returns the number of jobs after which the rest can be no worse.
    ///
    /// Let H be a common multiple of all periods, and the utilisation at most one. Then
    /// `f_{q + H/T}(w + H) ≤ f_q(w) + H`, so `w_{q + H/T} ≤ w_q + H`: the job H later does not take
    /// longer. So a utilisation of exactly one has a bound too, even if blocking or jitter keep the
    /// busy window open for ever.
    ///
    /// Few levels have a second job, and a hyperperiod costs more than the rest of a level's
    /// preparation, so it is not computed earlier.
    fn repetition(&self, steps: &mut Steps) -> Result<Option<u64>, OutOfSteps> {
        let mut sum = self.reserved();
        for task in self.up_to_here() {
            steps.take(1)?;
            sum.add(task.work, task.period);
            // If some of the tasks exceed the range, all of them do.
            if sum.hyperperiod_within_one().is_none() {
                return Ok(None);
            }
        }
        Ok(sum.hyperperiod_within_one().map(|hyperperiod| hyperperiod / self.task.period))
    }
}
