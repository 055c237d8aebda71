//! EDF: the tasks by `d_i = D_i − J_i`, each with the line above its demand.

use alloc::vec::Vec;

use punctual_model::Duration;

use super::{Denial, TaskId};
use crate::edf::demand::{
    DemandVerdict, busy_period_up_to, demand, last_deadline_before, processor_demand,
};
use crate::edf::response_time;
use crate::fixed_priority::ResponseTime;
use crate::load::{CpuLoad, Granularity, TaskLoad};
use crate::reservation::ReservedLoad;
use crate::steps::{OutOfSteps, Steps};

/// Work and shares are whole numbers of 2⁻⁴⁰ ns and 2⁻⁴⁰. With times of 64 bits, shares of at most
/// one and a million tasks every sum fits in 127 bits.
const FRACTION_BITS: u32 = 40;
const ONE: u64 = 1 << FRACTION_BITS;

/// Beyond so many tasks the sums might not fit; who has so many gets the full test each time.
const MOST_TASKS: usize = 1 << 20;

#[derive(Clone, Debug)]
pub(super) struct EarliestDeadline {
    /// The least `d_i` first.
    load: CpuLoad,
    /// Of the task at the same position.
    marks: Vec<Mark>,
    /// Of all tasks and reservations.
    total: Line,
    /// The sum of `C_i/min(d_i, T_i)` and the shares of the reservations, each rounded up.
    density: u64,
    /// What the reservations take however short the window.
    reserved: u64,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    id: TaskId,
    line: Line,
}

/// Work up to t is at most `base + t·slope`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    /// In units of 2⁻⁴⁰ ns.
    base: i128,
    /// In units of 2⁻⁴⁰, rounded up.
    slope: u64,
}

impl Line {
    /// Above the demand of `task` from its first deadline on.
    fn of_task(task: &TaskLoad) -> Self {
        let slope = share(task.work, task.period);
        let at_zero = product(task.deadline_after_jitter(), slope);
        Self { base: scaled(task.work) - at_zero, slope }
    }

    /// Above what a reservation takes: `⌈U·t + 2X(1 − U)⌉` is below `U·t + 2X + 1`.
    fn of_reservation(reservation: &ReservedLoad) -> Self {
        let base = scaled(least_reserved(reservation));
        Self { base, slope: share(reservation.work, reservation.period) }
    }

    fn at(self, t: u64) -> i128 {
        self.base + product(t, self.slope)
    }

    fn add(&mut self, other: Self) {
        self.base += other.base;
        self.slope += other.slope;
    }

    fn subtract(&mut self, other: Self) {
        self.base -= other.base;
        self.slope -= other.slope;
    }
}

/// Instants `[start, end)` in which the lines do not prove enough, all with the same blocking.
#[derive(Debug)]
struct Stretch {
    start: u64,
    end: u64,
    blocking: u64,
    /// Whether there is no `d_i` beyond.
    last: bool,
}

impl EarliestDeadline {
    pub(super) fn new(load: CpuLoad) -> Self {
        let mut total = Line { base: 0, slope: 0 };
        load.reservations.iter().for_each(|r| total.add(Line::of_reservation(r)));
        let reserved = load.reservations.iter().map(least_reserved);
        let reserved = reserved.fold(0, u64::saturating_add);
        Self { load, marks: Vec::new(), total, density: total.slope, reserved }
    }

    pub(super) fn load(&self) -> &CpuLoad {
        &self.load
    }

    pub(super) fn id(&self, at: usize) -> TaskId {
        self.marks[at].id
    }

    /// The kept sums are those of all there is.
    #[cfg(test)]
    pub(super) fn assert_sums(&self) {
        let mut anew = Self::new(CpuLoad { tasks: Vec::new(), ..self.load.clone() });
        for task in &self.load.tasks {
            anew.total.add(Line::of_task(task));
            anew.density += density(task);
        }
        assert_eq!((self.total, self.density), (anew.total, anew.density));
    }

    pub(super) fn admit(
        &mut self,
        id: TaskId,
        task: TaskLoad,
        steps: &mut Steps,
    ) -> Result<(), Denial> {
        steps.take(self.marks.len() + 1)?;
        if task.work > task.period {
            return Err(Denial::Overload { task: None });
        }
        let first = task.deadline_after_jitter();
        let at = self.load.tasks.partition_point(|other| other.deadline_after_jitter() <= first);
        let line = Line::of_task(&task);
        self.total.add(line);
        self.density += density(&task);
        self.load.tasks.insert(at, task);
        self.marks.insert(at, Mark { id, line });
        let verdict = self.verdict(steps);
        if verdict.is_err() {
            self.remove(at);
        }
        verdict
    }

    pub(super) fn remove(&mut self, at: usize) {
        let task = self.load.tasks.remove(at);
        self.density -= density(&task);
        self.total.subtract(self.marks.remove(at).line);
    }

    /// Whether even this is enough: from the first `d` on `h*(t) + B` is at most t times the sum of
    /// all `C_i/min(d_i, T_i)`, and B and what the reservations take at once in parts of that d.
    fn fits_by_density(&self) -> bool {
        let Some(first) = self.load.tasks.first() else { return true };
        let largest = self.load.tasks.iter().map(|task| task.quantum).max().unwrap_or(0);
        let at_once = self.reserved.saturating_add(largest);
        let at_once = share(at_once, first.deadline_after_jitter());
        self.density.saturating_add(at_once) < ONE
    }

    fn verdict(&self, steps: &mut Steps) -> Result<(), Denial> {
        // Rounding up can make it one where it is less.
        if self.total.slope >= ONE || self.marks.len() > MOST_TASKS {
            return self.full_verdict(steps);
        }
        if self.fits_by_density() {
            return Ok(());
        }
        let stretches = self.unproven_stretches();
        let Ok(stretches) = stretches else { return self.full_verdict(steps) };
        for stretch in stretches {
            self.examine(&stretch, steps)?;
        }
        Ok(())
    }

    fn full_verdict(&self, steps: &mut Steps) -> Result<(), Denial> {
        match processor_demand(&self.load, steps) {
            DemandVerdict::Fits => Ok(()),
            DemandVerdict::Exceeds { window, by, .. } => Err(Denial::Demand { window, by }),
            DemandVerdict::Overload => Err(Denial::Overload { task: None }),
            DemandVerdict::Undecided => Err(Denial::Undecided),
        }
    }

    /// Where `h*(t) + B(t) > t`, from the last one back; neighbours with the same blocking in one.
    fn unproven_stretches(&self) -> Result<Vec<Stretch>, OutOfSteps> {
        let mut stretches: Vec<Stretch> = Vec::new();
        // Of what comes behind: the next d, and the largest quantum.
        let (mut next, mut blocking) = (None, 0);
        let mut lines = self.total;
        let mut tasks = self.load.tasks.iter().zip(&self.marks).rev().peekable();
        while let Some((task, mark)) = tasks.next() {
            let d = task.deadline_after_jitter();
            let missing = lines.at(d) + scaled(blocking) - scaled(d);
            if missing > 0 {
                // Time gains `1 − slope` on the lines.
                let until =
                    u128::try_from(missing).unwrap_or(0).div_ceil(u128::from(ONE - lines.slope));
                let until = u64::try_from(until)
                    .ok()
                    .and_then(|until| d.checked_add(until)?.checked_add(1));
                let end = until.into_iter().chain(next).min().ok_or(OutOfSteps)?;
                match stretches.last_mut() {
                    Some(above) if above.start == end && above.blocking == blocking => {
                        above.start = d
                    }
                    _ => stretches.push(Stretch { start: d, end, blocking, last: next.is_none() }),
                }
            }
            // All with the same d have the same left, and those with a later one block them all.
            let mut largest = task.quantum;
            lines.subtract(mark.line);
            while let Some((task, mark)) =
                tasks.next_if(|(task, _)| task.deadline_after_jitter() == d)
            {
                largest = largest.max(task.quantum);
                lines.subtract(mark.line);
            }
            (next, blocking) = (Some(d), blocking.max(largest));
        }
        Ok(stretches)
    }

    /// QPA from the end of the stretch to its start, as `edf::demand` does it from the horizon.
    fn examine(&self, stretch: &Stretch, steps: &mut Steps) -> Result<(), Denial> {
        let &Stretch { start, end, blocking, last } = stretch;
        let mut before = end;
        if last {
            // What is too late beyond a busy period is too late in it. It counts all quanta.
            let largest = self.load.tasks.iter().map(|task| task.quantum).max().unwrap_or(0);
            let busy = busy_period_up_to(end, &self.load, largest, steps)?;
            before = before.min(busy.saturating_add(1));
        }
        while let Some((t, _)) = last_deadline_before(&self.load, before, steps)? {
            if t < start {
                break;
            }
            let demand = demand(&self.load, t, blocking, steps)?;
            if demand > t {
                let window = Duration::from_nanos(t);
                return Err(Denial::Demand { window, by: Duration::from_nanos(demand - t) });
            }
            before = demand;
        }
        Ok(())
    }

    pub(super) fn response_times(&self, steps: &mut Steps) -> Vec<ResponseTime> {
        response_time::response_times(&self.load, Granularity::Continuous, steps)
    }
}

/// What a reservation takes at once, rounded up.
fn least_reserved(reservation: &ReservedLoad) -> u64 {
    reservation.work.saturating_mul(2).saturating_add(1)
}

/// Of one task, in units of 2⁻⁴⁰, rounded up.
fn density(task: &TaskLoad) -> u64 {
    share(task.work, task.period.min(task.deadline_after_jitter()))
}

/// Never below `work / time`, in units of 2⁻⁴⁰. More than the whole CPU is cut: as a share of a
/// period it is refused, as a density it proves nothing.
fn share(work: u64, time: u64) -> u64 {
    let share = (u128::from(work) << FRACTION_BITS).div_ceil(u128::from(time));
    u64::try_from(share).unwrap_or(u64::MAX).min(ONE + 1)
}

fn scaled(nanos: u64) -> i128 {
    i128::from(nanos) << FRACTION_BITS
}

/// Below 2¹⁰⁵: a slope is at most a little above one.
fn product(nanos: u64, slope: u64) -> i128 {
    (u128::from(nanos) * u128::from(slope)) as i128
}
