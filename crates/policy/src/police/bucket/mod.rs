//! The theoretical arrival time of a sender, in the cheapest form that is exact.

mod narrow;
#[cfg(test)]
mod tests;
mod whole;
mod wide;

use punctual_model::Instant;

use super::scale::Scale;
use narrow::Narrow;
use whole::Whole;
use wide::Wide;

/// What fits 64 bits with room for a sign and for one sum.
const MOST: u64 = 1 << 62;

/// TAT, and what is asked of it.
trait Bucket {
    /// Whether `TAT − τ ≤ now`.
    fn may_come(&self, now: Instant) -> bool;
    /// One that may come did: `TAT = max(TAT, now) + T`.
    fn charge(&mut self, now: Instant, bytes: u32);
    /// TAT in ticks since the beginning of time.
    fn tat(&self) -> u128;
}

/// What a bucket is made for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measures {
    pub(super) scale: Scale,
    /// τ.
    pub(super) tolerance: u128,
    /// What a PDU costs: so much for each byte, and so much in all.
    pub(super) per_byte: u64,
    pub(super) per_pdu: u128,
    pub(super) max_sdu: u32,
}

impl Measures {
    /// How far ahead TAT can be: a conforming PDU finds at most the tolerance.
    fn most(&self) -> u128 {
        self.tolerance + u128::from(self.max_sdu) * u128::from(self.per_byte) + self.per_pdu
    }

    /// The first instant at which one may come.
    fn conforms_at(&self, tat: u128) -> Instant {
        self.scale.instant_at_or_after(tat.saturating_sub(self.tolerance))
    }
}

/// A TAT that begins at the beginning of time, at any rate.
///
/// The cheaper form is laid into the caller's code, and one comparison tells whether it judges; what
/// remains is a call.
#[derive(Clone, Debug)]
pub(super) struct Fractions {
    narrow: Narrow,
    /// Asked where `narrow` is not in use.
    wide: Wide,
    measures: Measures,
}

impl Fractions {
    pub(super) fn new(measures: Measures) -> Self {
        Self::from(measures, 0, Instant::ZERO)
    }

    fn from(measures: Measures, tat: u128, now: Instant) -> Self {
        let narrow = Narrow::new(measures, tat, now);
        Self { narrow, wide: Wide::new(measures, tat), measures }
    }

    /// Whether `TAT − τ ≤ now`; then one of `bytes` is charged: `TAT = max(TAT, now) + T`.
    #[inline]
    pub(super) fn takes(&mut self, now: Instant, bytes: u32) -> bool {
        if !self.narrow.reaches(now) {
            return self.takes_after_all(now, bytes);
        }
        let may = self.narrow.may_come(now);
        if may {
            self.narrow.charge(now, bytes);
        }
        may
    }

    #[inline(never)]
    fn takes_after_all(&mut self, now: Instant, bytes: u32) -> bool {
        let may = self.may_come(now);
        if may {
            self.charge(now, bytes);
        }
        may
    }

    /// A narrow form that does not reach `now` begins anew there, if it can.
    fn may_come(&mut self, now: Instant) -> bool {
        if self.narrow.in_use() && !self.narrow.reaches(now) {
            *self = Self::from(self.measures, self.tat(), now);
        }
        if self.narrow.in_use() { self.narrow.may_come(now) } else { self.wide.may_come(now) }
    }

    fn charge(&mut self, now: Instant, bytes: u32) {
        if self.narrow.in_use() {
            self.narrow.charge(now, bytes);
        } else {
            self.wide.charge(now, bytes);
        }
    }

    fn tat(&self) -> u128 {
        if self.narrow.in_use() { self.narrow.tat() } else { self.wide.tat() }
    }
}

/// A TAT that begins at the beginning of time: cheaper yet where a byte takes whole nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Tat {
    whole: Whole,
    /// Asked about instants that `whole` does not reach.
    fractions: Fractions,
}

impl Tat {
    pub(super) fn new(measures: Measures) -> Self {
        Self { whole: Whole::new(measures), fractions: Fractions::new(measures) }
    }

    /// Whether `TAT − τ ≤ now`; then one of `bytes` is charged: `TAT = max(TAT, now) + T`.
    #[inline]
    pub(super) fn takes(&mut self, now: Instant, bytes: u32) -> bool {
        if self.whole.reaches(now) {
            let may = self.whole.may_come(now);
            if may {
                self.whole.charge(now, bytes);
            }
            return may;
        }
        if self.whole.in_use() {
            self.go_on_from(now);
        }
        self.fractions.takes(now, bytes)
    }

    /// The first instant at which one may come.
    #[cold]
    pub(super) fn conforms_at(&self) -> Instant {
        self.fractions.measures.conforms_at(self.tat())
    }

    fn tat(&self) -> u128 {
        if self.whole.in_use() { self.whole.tat() } else { self.fractions.tat() }
    }

    #[cold]
    fn go_on_from(&mut self, now: Instant) {
        self.fractions = Fractions::from(self.fractions.measures, self.whole.tat(), now);
        self.whole.put_aside();
    }
}
