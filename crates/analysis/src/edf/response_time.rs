//! Response times under earliest deadline first.
//!
//! # The bound
//! Let a window start when the processor last had no pending job with a deadline up to `d`, and
//! count instants from there. With `d_j = D_j − J_j`, task j has in it at most `⌈(w + J_j)/T_j⌉`
//! jobs that become known before `w`, and `N_j(d) = ⌊(d − d_j)/T_j⌋ + 1` with a deadline up to `d`
//! (none if `d < d_j`). So the window ends by the least
//!
//! ```text
//! W(d) = B(d) + Σ_j min(⌈(W + J_j)/T_j⌉, N_j(d))·C_j + Σ_r I_r(W),   B(d) = max{q_j : d_j > d}
//! R_i  = D_i + max_{d ≥ d_i} (W(d) − d)
//! ```
//!
//! A job of task i with the deadline d was released at `d − D_i`, hence R_i. (If that instant is
//! not in the window, the difference is not a response time, but then it is negative.)
//!
//! # Which d
//! Only points at which some `N_j` grows matter: between them W stays the same while d grows. A
//! window is shorter than the longest busy period L (the least
//! `L = Σ ⌈(L + J_j)/T_j⌉·C_j + Σ I_r(L)`, which includes a blocker as well), so `d < L + D_i`. And
//! for a hyperperiod H, `W(d + H) ≤ W(d) + H` beyond the last d_j.
//!
//! # Assumptions
//! - Those of [`super::demand`], including blocking. Among equal deadlines, the job under study
//!   comes last.
//! - With a last segment `l_i` of known length ([`non_preemptive`]: the whole wcet) a job is
//!   delayed only until the segment begins, at the least
//!   `s = B(d) + N_i(d)·C_i − l_i + Σ_{j≠i} min(n_j(s), N_j(d))·C_j`, with `n_j` counting a release
//!   at `s` as `fixed_priority/busy_window.rs` says. With a reservation on the CPU the last segment
//!   protects nothing, because the reservation preempts it.
//!
//! # Sources
//! Spuri, INRIA RR-2772, 1996 (deadline busy periods, with jitter); George, Rivierre & Spuri, INRIA
//! RR-2966, 1996 (without preemption, from the start of the job). They fix the first release of
//! task i so that a job is released at `d − D_i`. Here all tasks start together, so one W(d) serves
//! all. It can only be longer, so it is as safe; tests compare its maximum with theirs, job by job.
//!
//! # Units and answers
//! Nanoseconds from the nominal release. The result is exact for floating quanta without
//! reservations, else a bound. It is never above the deadline if [`super::demand`] admits: then
//! `W(d) ≤ d`. With a utilisation above one no task has a bound. A result that [`Steps`] do not
//! reach is undecided.

use alloc::vec::Vec;

use punctual_model::Duration;

use super::deadline_points::DeadlinePoints;
use super::window::Window;
use crate::fixed_priority::ResponseTime;
use crate::load::{CpuLoad, Granularity, TaskLoad};
use crate::steps::{OutOfSteps, Steps};

/// Returns the response time of each task of `load`, in its order, with floating quanta; without
/// quanta it is fully preemptive.
pub fn response_times(
    load: &CpuLoad,
    granularity: Granularity,
    steps: &mut Steps,
) -> Vec<ResponseTime> {
    if load.utilisation().exceeds_one() {
        return load.tasks.iter().map(|_| ResponseTime::Unbounded).collect();
    }
    let worst = |task: &TaskLoad| task.work.saturating_add(task.jitter);
    let mut worst: Vec<u64> = load.tasks.iter().map(worst).collect();
    let decided = Search::new(load, granularity, steps)
        .and_then(|search| search.raise(&mut worst, steps))
        .is_ok();
    let answer = |worst| {
        let worst = Duration::from_nanos(worst);
        if decided {
            ResponseTime::AtMost(worst)
        } else {
            ResponseTime::Undecided { at_least: worst }
        }
    };
    worst.into_iter().map(answer).collect()
}

/// Returns the response times if a job that has begun is never preempted by another job. The quanta
/// are ignored.
pub fn non_preemptive(
    load: &CpuLoad,
    granularity: Granularity,
    steps: &mut Steps,
) -> Vec<ResponseTime> {
    response_times(&load.non_preemptive(), granularity, steps)
}

struct Search<'a> {
    load: &'a CpuLoad,
    tick: u64,
    points: DeadlinePoints<'a>,
    window: Window<'a>,
    /// The longest possible window.
    longest: u64,
    /// The last point that needs a check.
    end: u64,
    /// Whether some task has a last segment that protects it.
    protected: bool,
}

impl<'a> Search<'a> {
    fn new(
        load: &'a CpuLoad,
        granularity: Granularity,
        steps: &mut Steps,
    ) -> Result<Self, OutOfSteps> {
        let tick = granularity.tick_of(load);
        let latest = |of: fn(&TaskLoad) -> u64| load.tasks.iter().map(of).max().unwrap_or(0);
        let repeats = load
            .utilisation()
            .hyperperiod_within_one()
            .and_then(|h| h.checked_add(latest(TaskLoad::deadline_after_jitter)));
        let busy = busy_period(load, 0, repeats, steps)?;
        let blocked = load.longest_blocking().saturating_sub(tick);
        let longest = busy_period(load, blocked, repeats, steps)?;
        let by_window = busy.and_then(|busy| busy.checked_add(latest(|task| task.deadline)));
        Ok(Self {
            load,
            tick,
            points: DeadlinePoints::new(load, tick),
            window: Window::new(load),
            longest: longest.unwrap_or(u64::MAX),
            end: by_window.into_iter().chain(repeats).min().ok_or(OutOfSteps)?,
            protected: load.reservations.is_empty() && load.tasks.iter().any(|task| task.last > 0),
        })
    }

    /// Raises `worst` to the worst response times. If the search ends early, they are lower bounds.
    fn raise(mut self, worst: &mut [u64], steps: &mut Steps) -> Result<(), OutOfSteps> {
        // By the number of started tasks: the largest `W(d) − d` of the points with that number.
        let mut latest: Vec<Option<i128>> = self.load.tasks.iter().map(|_| None).collect();
        let mut outcome = Ok(());
        loop {
            match self.next_point(steps) {
                Ok(Some((d, late))) => {
                    let most = &mut latest[self.points.started().len() - 1];
                    *most = (*most).max(Some(late));
                    if self.protected {
                        outcome = self.raise_protected(d, late, worst, steps);
                    }
                    // The task that started last has the least.
                    let over = self.points.all_started()
                        && most.is_some_and(|most| difference(self.longest, d) <= most);
                    if over && !self.protected {
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => outcome = Err(error),
            }
            if outcome.is_err() {
                break;
            }
        }
        let mut most = None;
        for (started, &at) in self.points.order.iter().enumerate().rev() {
            most = most.max(latest[started]);
            let task = &self.load.tasks[at];
            if let (Some(late), true) = (most, task.last == 0 || !self.protected) {
                let response = u64::try_from(late + i128::from(task.deadline)).unwrap_or(0);
                worst[at] = worst[at].max(response);
            }
        }
        outcome
    }

    /// Returns the next point d to check, and `W(d) − d`.
    fn next_point(&mut self, steps: &mut Steps) -> Result<Option<(u64, i128)>, OutOfSteps> {
        let window = &mut self.window;
        let point = self.points.advance(steps, |at, due, steps| window.add(at, due, steps))?;
        let Some(d) = point.filter(|&d| d <= self.end) else { return Ok(None) };
        let length = window.length(self.points.blocking(), &self.points.jobs_due, steps)?;
        Ok(Some((d, difference(length, d))))
    }

    /// Raises `worst` of the tasks with a last segment that W(d) allows to be later than known.
    fn raise_protected(
        &self,
        d: u64,
        late: i128,
        worst: &mut [u64],
        steps: &mut Steps,
    ) -> Result<(), OutOfSteps> {
        steps.take(self.points.started().len())?;
        for &at in self.points.started() {
            let task = self.load.tasks[at];
            if task.last > 0 && late > difference(worst[at], task.deadline) {
                let end = self.end_of_protected_job(at, steps)?;
                let response = difference(end, d) + i128::from(task.deadline);
                worst[at] = worst[at].max(u64::try_from(response).unwrap_or(0));
            }
        }
        Ok(())
    }

    /// Returns the end of the job of the task `at` that is due at the current point.
    fn end_of_protected_job(&self, at: usize, steps: &mut Steps) -> Result<u64, OutOfSteps> {
        let tasks = &self.load.tasks[..];
        let TaskLoad { work, last, .. } = tasks[at];
        let blocking = self.points.blocking();
        let closed = self.tick > 0 || blocking == 0;
        let own = (self.points.jobs_due[at].checked_mul(work))
            .and_then(|own| (own - last).checked_add(blocking))
            .ok_or(OutOfSteps)?;
        let mut start = own;
        loop {
            steps.take(self.points.started().len())?;
            let others = self.points.started().iter().filter(|&&other| other != at);
            let next = others.into_iter().try_fold(own, |sum, &other| {
                let (task, due) = (&tasks[other], self.points.jobs_due[other]);
                let known =
                    if closed { task.arrivals_until(start) } else { task.arrivals_in(start) };
                sum.checked_add(known?.min(due).checked_mul(task.work)?)
            });
            let next = next.ok_or(OutOfSteps)?;
            if next <= start {
                return start.checked_add(last).ok_or(OutOfSteps);
            }
            start = next;
        }
    }
}

fn difference(a: u64, b: u64) -> i128 {
    i128::from(a) - i128::from(b)
}

/// Returns the longest busy period with this blocking, or `None` if it reaches `far`.
fn busy_period(
    load: &CpuLoad,
    blocking: u64,
    far: Option<u64>,
    steps: &mut Steps,
) -> Result<Option<u64>, OutOfSteps> {
    let mut window = blocking.max(1);
    loop {
        steps.take(load.tasks.len() + load.reservations.len())?;
        let tasks = load.tasks.iter().map(|task| task.work_in(window));
        let reserved = load.reservations.iter().map(|r| r.interference_in(window));
        let next = tasks
            .chain(reserved)
            .try_fold(blocking, |sum, work| sum.checked_add(work?))
            .ok_or(OutOfSteps)?;
        if far.is_some_and(|far| next > far) {
            return Ok(None);
        }
        if next <= window {
            return Ok(Some(window));
        }
        window = next;
    }
}
