//! The forms of the theoretical arrival time: in ticks at any rate, in whole nanoseconds a byte, and in
//! 128 bits for numbers that 64 bits do not hold.

use core::hint::select_unpredictable;

use punctual_model::Instant;

use super::{Bucket, MOST, Measures};
use crate::police::scale::Scale;

/// TAT in ticks since `epoch`.
///
/// It judges instants less than 2⁶² ticks after `epoch`; for a later one it restarts with a new
/// epoch. As with whole nanoseconds, TAT is below 2⁶³, and nothing wraps.
#[derive(Clone, Debug)]
pub(super) struct Narrow {
    tat: u64,
    epoch: u64,
    /// The number of nanoseconds from `epoch` on that it judges; 0: none.
    span: u64,
    tolerance: i64,
    per_byte: u64,
    per_pdu: u64,
    scale: Scale,
}

impl Narrow {
    /// Makes a form from `now` on. It reaches no instant if 64 bits do not suffice.
    pub(super) fn new(measures: Measures, tat: u128, now: Instant) -> Self {
        let most = measures.most();
        let Measures { scale, tolerance, per_byte, per_pdu, .. } = measures;
        let ahead = tat.saturating_sub(scale.ticks(now.as_nanos()));
        let fits = most <= u128::from(MOST) && ahead < 2 * u128::from(MOST);
        let span = if fits { MOST / scale.per_nano } else { 0 };
        // Below 2⁶³, or unused.
        let (tat, tolerance, per_pdu) = (ahead as u64, tolerance as i64, per_pdu as u64);
        Self { tat, epoch: now.as_nanos(), span, tolerance, per_byte, per_pdu, scale }
    }

    /// Returns true if it can judge a PDU at `now`; otherwise it must restart there.
    #[inline]
    pub(super) fn reaches(&self, now: Instant) -> bool {
        // Before `epoch` the difference is a large number.
        now.as_nanos().wrapping_sub(self.epoch) < self.span
    }

    pub(super) fn in_use(&self) -> bool {
        self.span > 0
    }

    #[inline]
    fn ticks(&self, now: Instant) -> u64 {
        now.as_nanos().wrapping_sub(self.epoch).wrapping_mul(self.scale.per_nano)
    }
}

impl Bucket for Narrow {
    #[inline]
    fn may_come(&self, now: Instant) -> bool {
        let ahead = self.tat.wrapping_sub(self.ticks(now)) as i64;
        ahead <= self.tolerance
    }

    #[inline]
    fn charge(&mut self, now: Instant, bytes: u32) {
        let now = self.ticks(now);
        let start = select_unpredictable(self.tat > now, self.tat, now);
        let cost = u64::from(bytes).wrapping_mul(self.per_byte).wrapping_add(self.per_pdu);
        self.tat = start.wrapping_add(cost);
    }

    fn tat(&self) -> u128 {
        self.scale.ticks(self.epoch) + u128::from(self.tat)
    }
}

/// TAT in nanoseconds, for `per_nano` = 1.
///
/// It judges instants before 2⁶² ns, 146 years, and TAT is at most 2⁶² ahead of one of them. So TAT
/// is below 2⁶³, the difference of the two has a sign, and nothing wraps.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    tat: u64,
    /// It judges instants before this one; 0: none.
    reach: u64,
    tolerance: i64,
    per_byte: u64,
    per_pdu: u64,
}

impl Whole {
    /// Makes a form from time zero on. It reaches no instant if the measures do not fit.
    pub(super) fn new(measures: Measures) -> Self {
        let fits = measures.scale.per_nano == 1 && measures.most() <= u128::from(MOST);
        let reach = if fits { MOST } else { 0 };
        let Measures { tolerance, per_byte, per_pdu, .. } = measures;
        // Below 2⁶³, or unused.
        let (tolerance, per_pdu) = (tolerance as i64, per_pdu as u64);
        Self { tat: 0, reach, tolerance, per_byte, per_pdu }
    }

    /// Puts the form out of use: it reaches no instant from here on.
    pub(super) fn put_aside(&mut self) {
        self.reach = 0;
    }

    /// Returns true if it can judge a PDU at `now`; otherwise another form must continue from its
    /// TAT.
    #[inline]
    pub(super) fn reaches(&self, now: Instant) -> bool {
        now.as_nanos() < self.reach
    }

    #[inline]
    pub(super) fn in_use(&self) -> bool {
        self.reach > 0
    }
}

impl Bucket for Whole {
    #[inline]
    fn may_come(&self, now: Instant) -> bool {
        // Negative if TAT is past.
        let ahead = self.tat.wrapping_sub(now.as_nanos()) as i64;
        ahead <= self.tolerance
    }

    // Without a branch: for a sender near its rate it is a coin toss whether TAT is past, and the
    // mispredictions would cost more than the rest.
    #[inline]
    fn charge(&mut self, now: Instant, bytes: u32) {
        let now = now.as_nanos();
        let start = select_unpredictable(self.tat > now, self.tat, now);
        let cost = u64::from(bytes).wrapping_mul(self.per_byte).wrapping_add(self.per_pdu);
        self.tat = start.wrapping_add(cost);
    }

    fn tat(&self) -> u128 {
        u128::from(self.tat)
    }
}

/// TAT in ticks since time zero: below 2¹⁰⁶, because instants and tolerances are below 2¹⁰⁴.
#[derive(Clone, Debug)]
pub(super) struct Wide {
    tat: u128,
    measures: Measures,
}

impl Wide {
    pub(super) fn new(measures: Measures, tat: u128) -> Self {
        Self { tat, measures }
    }
}

impl Bucket for Wide {
    fn may_come(&self, now: Instant) -> bool {
        self.tat <= self.measures.scale.ticks(now.as_nanos()) + self.measures.tolerance
    }

    fn charge(&mut self, now: Instant, bytes: u32) {
        let Measures { scale, per_byte, per_pdu, .. } = self.measures;
        let start = self.tat.max(scale.ticks(now.as_nanos()));
        self.tat = start + u128::from(bytes) * u128::from(per_byte) + per_pdu;
    }

    fn tat(&self) -> u128 {
        self.tat
    }
}
