//! The exact test of one task, and the search for its certificate.
//!
//! The recurrences are those of `fixed_priority/busy_window.rs`, in continuous time, with the
//! starts of last segments in the single form that the module describes.

use alloc::vec::Vec;

use super::certificate::{Certificate, Point};
use crate::load::{CpuLoad, TaskLoad};
use crate::ratio::{Ratio, Utilisation};
use crate::reservation::ReservedLoad;
use crate::steps::{OutOfSteps, Steps};

/// The largest number of instants in a certificate, so that memory is linear in the tasks.
const MOST_POINTS: usize = 9;

/// The number of releases that are tried as instants with a larger spare, beside the last possible
/// instant.
const CANDIDATES: usize = 3;

/// A spare of one part in so many of the instant is enough for many more tasks, so no better
/// instant is searched for.
pub(super) const AMPLE: u64 = 16;

pub(super) enum Verdict {
    InTime(Found),
    /// Some job takes at least this long, which is too long.
    Late {
        at_least: u64,
    },
    /// The task and those above it need more than the CPU.
    Overload,
    Undecided,
}

/// The findings about a task in time.
pub(super) struct Found {
    pub(super) certificate: Certificate,
    /// A lower bound of the first busy window.
    pub(super) window: u64,
}

impl From<OutOfSteps> for Verdict {
    fn from(OutOfSteps: OutOfSteps) -> Self {
        Self::Undecided
    }
}

/// One task with everything that delays it.
pub(super) struct Level<'a> {
    task: TaskLoad,
    higher: &'a [TaskLoad],
    reservations: &'a [ReservedLoad],
    blocking: u64,
    /// As in `fixed_priority/busy_window.rs`: zero with reservations.
    last: u64,
    /// A lower bound of the share of the load above.
    above: Ratio,
}

/// The range of an instant, and the work that is there in any case.
struct Range {
    own: u64,
    from: u64,
    to: u64,
    start: bool,
}

impl<'a> Level<'a> {
    pub(super) fn new(load: &'a CpuLoad, at: usize, blocking: u64, above: Ratio) -> Self {
        let task = load.tasks[at];
        let reservations = &load.reservations[..];
        let last = if reservations.is_empty() { task.last } else { 0 };
        Self { task, higher: &load.tasks[..at], reservations, blocking, last, above }
    }

    /// Returns whether the task is in time. The first busy window is known to be no shorter than
    /// `window`.
    pub(super) fn examine(&self, window: u64, steps: &mut Steps) -> Verdict {
        match self.one_job(window, steps) {
            Ok(Some(verdict)) => verdict,
            Ok(None) => self.every_job(window, steps).unwrap_or_else(Verdict::from),
            Err(out) => out.into(),
        }
    }

    /// Searches for a busy window that ends before a second job and before the deadline. Returns
    /// `None` if there is none and every job has to be examined.
    fn one_job(&self, known: u64, steps: &mut Steps) -> Result<Option<Verdict>, OutOfSteps> {
        let TaskLoad { work, period, deadline, jitter, .. } = self.task;
        let Some(to) = period.min(deadline).checked_sub(jitter) else { return Ok(None) };
        let own = self.blocking.checked_add(work).ok_or(OutOfSteps)?;
        let mut range = Range { own, from: known, to, start: false };
        // Nearly always all work that may come until then fits, so one check replaces a search.
        if let Some(point) = self.point(&range, to, steps) {
            if point.spare >= to / AMPLE {
                return Ok(Some(found(Certificate::One(point), known)));
            }
        } else {
            let Ok(least) = self.least_window(own) else { return Ok(None) };
            match self.least_fixed_point(own, least.max(known), to, steps)? {
                Ok(window) => range.from = window,
                Err(longer) if deadline <= period && self.last == 0 => {
                    return Ok(Some(Verdict::Late { at_least: longer.saturating_add(jitter) }));
                }
                Err(_) => return Ok(None),
            }
        }
        let window = range.from;
        Ok(self.best(&range, steps).map(|point| found(Certificate::One(point), window)))
    }

    /// Examines job by job, as long as the busy window may last.
    fn every_job(&self, known: u64, steps: &mut Steps) -> Result<Verdict, OutOfSteps> {
        let TaskLoad { work, period, deadline, jitter, .. } = self.task;
        let total = self.utilisation(steps)?;
        if total.exceeds_one() {
            return Ok(Verdict::Overload);
        }
        let repetition = total.hyperperiod_within_one().map(|hyperperiod| hyperperiod / period);
        let closed_form = u64::from(self.blocking == 0);
        let mut ranges = Vec::new();
        // For the job under study: blocking and own work, nominal release, end and start so far.
        let (mut own, mut release) = (self.blocking.checked_add(work).ok_or(OutOfSteps)?, 0u64);
        let (mut end, mut start) = (known, 0);
        let mut window = known;
        for job in 0.. {
            // The last instant at which the job may be complete.
            let due = release.checked_add(deadline - jitter).ok_or(OutOfSteps)?;
            if self.last > 0 {
                let before = own.max(own - self.blocking + 1) - self.last;
                let Some(to) = due.checked_sub(self.last) else {
                    return Ok(Verdict::Late { at_least: own.saturating_add(jitter) });
                };
                let latest = to.saturating_add(closed_form);
                start = self.least_window(before)?.max(start);
                match self.least_fixed_point(before, start, latest, steps)? {
                    Ok(found) => start = found,
                    Err(late) => {
                        let late = late.saturating_add(self.last).saturating_add(jitter);
                        return Ok(Verdict::Late { at_least: late - closed_form - release });
                    }
                }
                ranges.push(Range { own: before, from: start, to, start: true });
                start = start.checked_add(work).ok_or(OutOfSteps)?;
            }
            let latest = if self.last > 0 { u64::MAX } else { due };
            end = self.least_window(own)?.max(end);
            match self.least_fixed_point(own, end, latest, steps)? {
                Ok(found) => end = found,
                Err(late) => {
                    let at_least = late.saturating_add(jitter) - release;
                    return Ok(Verdict::Late { at_least });
                }
            }
            if job == 0 {
                window = end;
            }
            let next = release.checked_add(period).ok_or(OutOfSteps)?;
            let closed = end.checked_add(jitter).ok_or(OutOfSteps)? <= next;
            if closed || self.last == 0 {
                // Only the last job's instant has to show that the window is closed.
                let by = if closed { next - jitter } else { u64::MAX };
                let to = by.min(latest);
                ranges.push(Range { own, from: end, to, start: false });
            }
            if closed {
                return Ok(found(self.certificate(&ranges, steps), window));
            }
            if Some(job + 1) == repetition {
                // At a utilisation of one the window is open for ever, and nothing more fits.
                return Ok(found(Certificate::Missing, window));
            }
            ranges.truncate(MOST_POINTS);
            release = next;
            own = own.checked_add(work).ok_or(OutOfSteps)?;
            end = end.checked_add(work).ok_or(OutOfSteps)?;
        }
        Err(OutOfSteps)
    }

    /// Returns a certificate with an instant in every range, or a missing one.
    fn certificate(&self, ranges: &[Range], steps: &mut Steps) -> Certificate {
        if ranges.len() > MOST_POINTS {
            return Certificate::Missing;
        }
        let points: Option<Vec<Point>> =
            ranges.iter().map(|range| self.best(range, steps)).collect();
        points.map_or(Certificate::Missing, Certificate::Many)
    }

    /// Returns the instant with the most spare among a few: the end of the range, the costliest
    /// releases shortly before it, and the start.
    fn best(&self, range: &Range, steps: &mut Steps) -> Option<Point> {
        // Skipping a release saves its work but costs the time back to it, less the work of others
        // in that time.
        const WEIGHT: u64 = 8;
        let mut costly = [(0, range.to); CANDIDATES];
        steps.take(self.higher.len()).ok()?;
        for task in self.higher {
            let Some(end) = range.to.checked_add(task.jitter).filter(|&end| end > 0) else {
                continue;
            };
            let release = ((end - 1) / task.period * task.period).saturating_sub(task.jitter);
            if release <= range.from {
                continue;
            }
            let gain = task.work.saturating_sub((range.to - release) / WEIGHT);
            if gain > costly[CANDIDATES - 1].0 {
                costly[CANDIDATES - 1] = (gain, release);
                costly.sort_unstable_by_key(|&(gain, _)| core::cmp::Reverse(gain));
            }
        }
        let costly = costly.into_iter().filter(|&(gain, _)| gain > 0).map(|(_, at)| at);
        [range.to, range.from]
            .into_iter()
            .chain(costly)
            .filter(|&at| (range.from..=range.to).contains(&at))
            .filter_map(|at| self.point(range, at, steps))
            .max_by_key(|point| point.spare)
    }

    /// Returns the point at `at`, if all required work is done by then.
    fn point(&self, range: &Range, at: u64, steps: &mut Steps) -> Option<Point> {
        let spare = at.checked_sub(self.demand(range.own, at, steps).ok()?)?;
        Some(Point { at, spare, start: range.start })
    }

    /// Returns the least fixed point, starting from `least`, which must not be above it. If it is
    /// beyond `latest`, returns an error with a lower bound of it that is beyond `latest` too.
    fn least_fixed_point(
        &self,
        own: u64,
        least: u64,
        latest: u64,
        steps: &mut Steps,
    ) -> Result<Result<u64, u64>, OutOfSteps> {
        let mut at = least.max(own);
        while at <= latest {
            let next = self.demand(own, at, steps)?;
            if next <= at {
                return Ok(Ok(at));
            }
            at = next;
        }
        Ok(Err(at))
    }

    /// Returns `own` and all work that arrives above the task in `[0, window)`.
    fn demand(&self, own: u64, window: u64, steps: &mut Steps) -> Result<u64, OutOfSteps> {
        steps.take(self.higher.len() + self.reservations.len() + 1)?;
        let tasks = self.higher.iter().map(|task| task.work_in(window));
        let reserved = self.reservations.iter().map(|r| r.interference_in(window));
        tasks.chain(reserved).try_fold(own, |sum, work| sum.checked_add(work?)).ok_or(OutOfSteps)
    }

    /// Returns `own / (1 − U)`: no window is shorter, because the load above takes at least its
    /// share.
    fn least_window(&self, own: u64) -> Result<u64, OutOfSteps> {
        Ratio::ONE.minus(self.above).divide_up(own).ok_or(OutOfSteps)
    }

    /// Returns the utilisation of the task and all above it.
    fn utilisation(&self, steps: &mut Steps) -> Result<Utilisation, OutOfSteps> {
        steps.take(self.higher.len() + self.reservations.len() + 1)?;
        let tasks = self.higher.iter().chain([&self.task]).map(|task| (task.work, task.period));
        let reserved = self.reservations.iter().map(|r| (r.work, r.period));
        let mut sum = Utilisation::ZERO;
        tasks.chain(reserved).for_each(|(work, period)| sum.add(work, period));
        Ok(sum)
    }
}

fn found(certificate: Certificate, window: u64) -> Verdict {
    Verdict::InTime(Found { certificate, window })
}
