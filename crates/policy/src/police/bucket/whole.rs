//! Rates at which a byte takes whole nanoseconds: only the bytes are multiplied.

use core::hint::select_unpredictable;

use punctual_model::Instant;

use super::{Bucket, MOST, Measures};

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
