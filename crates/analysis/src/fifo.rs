//! Response times under first in, first out: jobs run in the order in which they become known, and
//! none preempts another.
//!
//! # The bound
//! Let a window start when the processor last had no job to do, count instants from there, and let
//! the job under study, of task i, become known at A. Exactly the jobs that became known in
//! `[0, A]` go before it. Of task j these are at most `n_j(A) = ⌊(A + J_j)/T_j⌋ + 1`. Of task i
//! itself they are `⌊A/T_i⌋ + 1` if the job became known as late as it may. That is the worst case:
//! with its release fixed, a later A lets no fewer jobs go before it. So with
//!
//! ```text
//! F_i(A) = the least w with w = L + (⌊A/T_i⌋ + 1)·C_i + Σ_{j≠i} n_j(A)·C_j + Σ_r I_r(w)
//! R_i    = J_i + max_{A ≥ 0} (F_i(A) − A)
//! ```
//!
//! L is the wake-up at the start of a window. Without reservations F_i is a sum and no search is
//! needed. Tasks without jitter share one bound.
//!
//! # Which A
//! Only 0 and the points at which some count grows matter: between them F_i stays the same while A
//! grows. If all jobs known before A are done by A (`F_i` before A is at most A), A starts a window
//! of its own, and no job from there on takes longer than the one at the same distance from the
//! first start: the counts in `[A, A + x]` are at most those in `[0, x]`. And for a hyperperiod H
//! at a utilisation of at most one, `F_i(A + H) ≤ F_i(A) + H`: a sum of exactly one has a bound
//! too.
//!
//! # Assumptions
//! - Tasks are sporadic and independent and do not suspend themselves; a job's processor time is at
//!   most its wcet (two context switches are charged on top). Deadlines are arbitrary.
//! - Quanta and last segments have no effect: no task preempts another.
//! - Among jobs that become known together, the one under study comes last. Time is continuous, so
//!   a task listed first gains nothing in the supremum: the others may come just before.
//! - A reservation runs above all tasks and preempts them: it makes the result an upper bound
//!   ([`crate::reservation::ReservedLoad::interference_in`]), no longer exact.
//!
//! # Source
//! Bedarkar, Vardishvili, Bozhko, Maida & Brandenburg, RTSS 2022 (a verified bound for arbitrary
//! arrival curves; sporadic tasks are a special case). There all tasks share one bound and a task's
//! own jitter is in the arrival curve. Here the release is the nominal one, so each task has its
//! own jitter once in the response and not in its own count.
//!
//! # Units and answers
//! Nanoseconds from the nominal release. Exact without reservations, else a bound. With a
//! utilisation above one no task has a bound; a result that [`Steps`] do not reach is undecided.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use punctual_model::Duration;

use crate::fixed_priority::ResponseTime;
use crate::load::{CpuLoad, TaskLoad};
use crate::steps::{OutOfSteps, Steps};

/// The steps that a queue operation costs, as a number of terms of a formula.
const QUEUE: usize = 16;

/// Returns the response time of each task of `load`, in its order.
pub fn response_times(load: &CpuLoad, steps: &mut Steps) -> Vec<ResponseTime> {
    let mut search = Search::new(load, u64::MAX);
    (0..load.tasks.len()).map(|at| search.response_time(at, steps)).collect()
}

/// Returns whether every task of `load` certainly meets its deadline. Cheaper than
/// [`response_times`].
pub(crate) fn all_in_time(load: &CpuLoad, steps: &mut Steps) -> bool {
    // Beyond this value, one of the tasks that share a bound is late.
    let steady = load.tasks.iter().filter(|task| task.jitter == 0);
    let mut search = Search::new(load, steady.map(|task| task.deadline).min().unwrap_or(0));
    load.tasks.iter().enumerate().all(|(at, task)| {
        let bound = search.response_time(at, steps).bound();
        bound.is_some_and(|bound| bound.as_nanos() <= task.deadline)
    })
}

struct Search<'a> {
    load: &'a CpuLoad,
    /// The time after which the jobs repeat, if known.
    repeats: Option<u64>,
    /// The bound shared by all tasks without jitter, and the value beyond which its search may end.
    shared: Option<ResponseTime>,
    enough: u64,
}

impl<'a> Search<'a> {
    fn new(load: &'a CpuLoad, enough: u64) -> Self {
        let repeats = load.utilisation().hyperperiod_within_one();
        Self { load, repeats, shared: None, enough }
    }

    fn response_time(&mut self, at: usize, steps: &mut Steps) -> ResponseTime {
        let jitter = self.load.tasks[at].jitter;
        if let (0, Some(shared)) = (jitter, self.shared) {
            return shared;
        }
        if self.load.utilisation().exceeds_one() {
            return ResponseTime::Unbounded;
        }
        let mut worst = 0;
        let decided = self.longest(at, &mut worst, steps).is_ok();
        let time = match worst.checked_add(jitter).map(Duration::from_nanos) {
            Some(worst) if decided => ResponseTime::AtMost(worst),
            worst => ResponseTime::Undecided { at_least: worst.unwrap_or(Duration::MAX) },
        };
        if jitter == 0 {
            self.shared = Some(time);
        }
        time
    }

    /// Raises `worst` to the largest `F(A) − A` for the task `own`. If it ends early, `worst` is a
    /// lower bound.
    fn longest(&self, own: usize, worst: &mut u64, steps: &mut Steps) -> Result<(), OutOfSteps> {
        let jitter_of = |at: usize| if at == own { 0 } else { self.load.tasks[at].jitter };
        let enough = if self.load.tasks[own].jitter == 0 { self.enough } else { u64::MAX };
        // The work of all jobs that go before, and the time at which the next job of each task
        // becomes known.
        let mut work = 0u64;
        let mut coming = BinaryHeap::with_capacity(self.load.tasks.len());
        for (at, task) in self.load.tasks.iter().enumerate() {
            steps.take(QUEUE)?;
            let jobs = jitter_of(at) / task.period + 1;
            work = (jobs.checked_mul(task.work))
                .and_then(|more| work.checked_add(more))
                .ok_or(OutOfSteps)?;
            let nominal = jobs.checked_mul(task.period).ok_or(OutOfSteps)?;
            coming.push(Reverse((nominal - jitter_of(at), at)));
        }
        work = work.checked_add(self.load.wake_up).ok_or(OutOfSteps)?;
        let (mut known, mut end) = (0, 0);
        loop {
            end = self.end(work, end, steps)?;
            *worst = (*worst).max(end.saturating_sub(known));
            let Some(&Reverse((next, _))) = coming.peek() else { return Ok(()) };
            let over = end <= next || self.repeats.is_some_and(|repeats| next >= repeats);
            if over || *worst > enough {
                return Ok(());
            }
            known = next;
            while let Some(mut top) = coming.peek_mut() {
                let Reverse((here, at)) = *top;
                if here > known {
                    break;
                }
                steps.take(QUEUE)?;
                let TaskLoad { work: more, period, .. } = self.load.tasks[at];
                work = work.checked_add(more).ok_or(OutOfSteps)?;
                *top = Reverse((here.checked_add(period).ok_or(OutOfSteps)?, at));
            }
        }
    }

    /// Returns when `work` is done, which is not before `end`.
    fn end(&self, work: u64, end: u64, steps: &mut Steps) -> Result<u64, OutOfSteps> {
        let mut end = end.max(work);
        loop {
            steps.take(1 + self.load.reservations.len())?;
            let mut reserved = self.load.reservations.iter().map(|r| r.interference_in(end));
            let next = reserved.try_fold(work, |sum, work| sum.checked_add(work?));
            let next = next.ok_or(OutOfSteps)?;
            if next <= end {
                return Ok(end);
            }
            end = next;
        }
    }
}
