//! Sums over tasks, which bound busy periods without a look at each task.

use crate::load::TaskLoad;
use crate::reservation::ReservedLoad;

/// The sums over the tasks of a CPU, or over the channels of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// `Σ ⌈D/T⌉·C`: the work that can be pending while no job is late.
    pending: u128,
    /// `Σ C + C·J/T`: the work that a window may hold beyond its share.
    beyond: u128,
    /// `Σ C/T` in 2⁻⁶⁴, each rounded up.
    share: u128,
}

impl Sums {
    fn of(task: &TaskLoad) -> Self {
        let [work, period] = [task.most(), task.period].map(u128::from);
        let early = (work * u128::from(task.jitter)).div_ceil(period);
        Self {
            pending: u128::from(task.deadline.div_ceil(task.period)) * work,
            beyond: work + early,
            share: (work << 64).div_ceil(period),
        }
    }

    // At most 2³² tasks, with less than 2⁹⁶ of each: no sum overflows.
    pub(super) fn add(&mut self, task: &TaskLoad) {
        let one = Self::of(task);
        self.pending = self.pending.saturating_add(one.pending);
        self.beyond += one.beyond;
        self.share += one.share;
    }

    pub(super) fn remove(&mut self, task: &TaskLoad) {
        let one = Self::of(task);
        self.pending = self.pending.saturating_sub(one.pending);
        self.beyond -= one.beyond;
        self.share -= one.share;
    }

    /// Returns the most work, in nanoseconds, that can be pending while no job is late.
    pub(super) fn pending(&self) -> u64 {
        u64::try_from(self.pending).unwrap_or(u64::MAX)
    }

    /// Returns a time within which there has been no work, if `more` than that of the tasks can be
    /// pending beneath the loads `above`. It is up to about twice the longest busy period, and found
    /// in O(1) for each load above. Returns `None` if there is none in 64 bits.
    pub(super) fn idle_within(&self, more: u64, above: &[ReservedLoad]) -> Option<u64> {
        let (mut at_once, mut share) = (u128::from(more), self.share);
        at_once = at_once.checked_add(self.pending)?.checked_add(self.beyond)?;
        for load in above {
            // Each is rounded up once.
            at_once = at_once.checked_add(u128::from(load.beyond_its_share()?) + 1)?;
            share += (u128::from(load.work) << 64).div_ceil(u128::from(load.period));
        }
        let idle = (1_u128 << 64).checked_sub(share).filter(|idle| *idle > 0)?;
        let at_once = u64::try_from(at_once).ok()?;
        u64::try_from((u128::from(at_once) << 64).div_ceil(idle)).ok()
    }
}
