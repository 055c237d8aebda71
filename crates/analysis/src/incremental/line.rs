//! A line above a task's demand, in whole numbers.

use crate::load::TaskLoad;
use crate::reservation::ReservedLoad;

/// Work is in whole units of 2⁻⁴⁰ ns, and shares in units of 2⁻⁴⁰. With times of 64 bits, shares of
/// at most one and a million tasks every sum fits in 127 bits.
const FRACTION_BITS: u32 = 40;
pub(super) const ONE: u64 = 1 << FRACTION_BITS;

/// An upper bound of work: at most `base + t·slope` up to t.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// In units of 2⁻⁴⁰ ns.
    base: i128,
    /// In units of 2⁻⁴⁰, rounded up.
    pub(super) slope: u64,
}

impl Line {
    pub(super) const ZERO: Self = Self { base: 0, slope: 0 };

    /// Returns a line above the demand of `task` from its first deadline on.
    pub(super) fn of_task(task: &TaskLoad) -> Self {
        let slope = share(task.work, task.period);
        let at_zero = product(task.deadline_after_jitter(), slope);
        Self { base: scaled(task.work) - at_zero, slope }
    }

    /// Returns a line above the reservations' load: for each one the work that an empty window may
    /// hold, a nanosecond of rounding, and its share. A reservation that takes more than its whole
    /// period makes the slope more than one.
    pub(super) fn of_reservations(reservations: &[ReservedLoad]) -> Self {
        let mut sum = Self::ZERO;
        for one in reservations {
            let least = one.beyond_its_share().unwrap_or(one.period).saturating_add(1);
            sum.add(Self { base: scaled(least), slope: share(one.work, one.period) });
        }
        sum
    }

    /// Returns the value at `t`, in units of 2⁻⁴⁰ ns.
    pub(super) fn at(self, t: u64) -> i128 {
        self.base + product(t, self.slope)
    }

    pub(super) fn add(&mut self, other: Self) {
        self.base += other.base;
        self.slope += other.slope;
    }

    pub(super) fn subtract(&mut self, other: Self) {
        self.base -= other.base;
        self.slope -= other.slope;
    }
}

/// Converts nanoseconds to units of 2⁻⁴⁰ ns.
pub(super) fn scaled(nanos: u64) -> i128 {
    i128::from(nanos) << FRACTION_BITS
}

/// Returns `work / time` rounded up, in units of 2⁻⁴⁰. More than the whole CPU is cut: it is
/// refused in any case.
fn share(work: u64, time: u64) -> u64 {
    let share = (u128::from(work) << FRACTION_BITS).div_ceil(u128::from(time));
    u64::try_from(share).unwrap_or(u64::MAX).min(ONE + 1)
}

/// Below 2¹⁰⁵, because a slope is at most a little above one.
fn product(nanos: u64, slope: u64) -> i128 {
    (u128::from(nanos) * u128::from(slope)) as i128
}
