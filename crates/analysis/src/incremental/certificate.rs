//! The proof that one task is in time, with the additional work it can bear.

use alloc::vec::Vec;
use core::slice;

use crate::load::TaskLoad;
use crate::reservation::{ReservedLoad, interference_of};

/// An instant by which all required work is done, with time to spare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    /// Counted from the start of the busy window.
    pub(super) at: u64,
    /// `at` less the work up to it.
    pub(super) spare: u64,
    /// Whether a last segment starts there; then blocking counts as at least 1.
    pub(super) start: bool,
}

impl Point {
    /// Returns the amount that `blocking` counts here.
    pub(super) fn counted(&self, blocking: u64) -> u64 {
        if self.start { blocking.max(1) } else { blocking }
    }
}

/// The instants that together prove a task in time.
#[derive(Clone, Debug)]
pub(super) enum Certificate {
    /// The task is in time, but has to be examined anew at each change for the worse.
    Missing,
    /// The end of a busy window of one job.
    One(Point),
    /// Several jobs, or last segments.
    Many(Vec<Point>),
}

impl Certificate {
    pub(super) fn points(&self) -> &[Point] {
        match self {
            Self::Missing => &[],
            Self::One(point) => slice::from_ref(point),
            Self::Many(points) => points,
        }
    }

    fn points_mut(&mut self) -> &mut [Point] {
        match self {
            Self::Missing => &mut [],
            Self::One(point) => slice::from_mut(point),
            Self::Many(points) => points,
        }
    }

    /// Returns whether the task is still proven in time with a more urgent `task` added.
    pub(super) fn bears(&self, task: &TaskLoad) -> bool {
        self.bears_work(|at| task.work_in(at))
    }

    /// Returns whether the task is still proven in time if the reservations above it grow from
    /// `before` to `after`. If so, the losses of its instants are appended to `growths`.
    pub(super) fn bears_reserved(
        &self,
        before: &[ReservedLoad],
        after: &[ReservedLoad],
        growths: &mut Vec<u64>,
    ) -> bool {
        // A point at a last segment proves nothing under reservations.
        let lost = before.is_empty() && self.points().iter().any(|point| point.start);
        let known = growths.len();
        let mut fits = |point: &Point| {
            let growth = growth(before, after, point.at).filter(|growth| *growth <= point.spare);
            growths.extend(growth);
            growth.is_some()
        };
        let bears = !lost && !matches!(self, Self::Missing) && self.points().iter().all(&mut fits);
        if !bears {
            growths.truncate(known);
        }
        bears
    }

    fn bears_work(&self, work_in: impl Fn(u64) -> Option<u64>) -> bool {
        let fits = |point: &Point| work_in(point.at).is_some_and(|work| work <= point.spare);
        !matches!(self, Self::Missing) && self.points().iter().all(fits)
    }

    /// Returns whether the task is still proven in time with the blocking raised from `old` to
    /// `new`.
    pub(super) fn bears_blocking(&self, old: u64, new: u64) -> bool {
        let fits = |point: &Point| point.counted(new) - point.counted(old) <= point.spare;
        !matches!(self, Self::Missing) && self.points().iter().all(fits)
    }

    /// Subtracts the work that [`Self::bears`] found to fit.
    pub(super) fn take(&mut self, task: &TaskLoad) {
        self.take_work(|at| task.work_in(at));
    }

    /// Subtracts the losses that [`Self::bears_reserved`] found from the instants.
    pub(super) fn take_growths(&mut self, growths: &mut impl Iterator<Item = u64>) {
        for (point, growth) in self.points_mut().iter_mut().zip(growths) {
            point.spare -= growth;
        }
    }

    fn take_work(&mut self, work_in: impl Fn(u64) -> Option<u64>) {
        for point in self.points_mut() {
            point.spare -= work_in(point.at).expect("`bears` has computed the same");
        }
    }

    /// Gives back the work that [`Self::take`] subtracted.
    pub(super) fn give(&mut self, task: &TaskLoad) {
        self.give_work(|at| task.work_in(at));
    }

    /// Gives back the losses that [`Self::take_growths`] subtracted, when the reservations shrink
    /// from `before` to `after`.
    pub(super) fn give_reserved(&mut self, before: &[ReservedLoad], after: &[ReservedLoad]) {
        self.give_work(|at| growth(after, before, at));
    }

    fn give_work(&mut self, work_in: impl Fn(u64) -> Option<u64>) {
        for point in self.points_mut() {
            let work = work_in(point.at);
            point.spare += work.expect("it was taken, or counted when the point was found");
        }
    }

    /// Changes the blocking from `old` to `new`, which must be borne.
    pub(super) fn change_blocking(&mut self, old: u64, new: u64) {
        for point in self.points_mut() {
            point.spare = point.spare + point.counted(old) - point.counted(new);
        }
    }
}

/// Returns how much more of a window `more` can use than `less`, which is a part of it.
fn growth(less: &[ReservedLoad], more: &[ReservedLoad], window: u64) -> Option<u64> {
    interference_of(more, window)?.checked_sub(interference_of(less, window)?)
}
