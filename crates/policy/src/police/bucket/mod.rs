//! The theoretical arrival time of a sender, in the cheapest form that is exact.

mod forms;
#[cfg(test)]
mod tests;

use punctual_model::Instant;

use super::scale::Scale;
use forms::Narrow;
use forms::Whole;
use forms::Wide;

/// The largest number in 64 bits that leaves room for a sign and for one sum.
const MOST: u64 = 1 << 62;

/// A form of TAT, the theoretical arrival time.
trait Bucket {
    /// Returns true if `TAT − τ ≤ now`.
    fn may_come(&self, now: Instant) -> bool;
    /// Charges a conforming PDU: `TAT = max(TAT, now) + T`.
    fn charge(&mut self, now: Instant, bytes: u32);
    /// Returns TAT in ticks since time zero.
    fn tat(&self) -> u128;
}

/// The parameters of a bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measures {
    pub(super) scale: Scale,
    /// The tolerance τ.
    pub(super) tolerance: u128,
    /// The cost of a PDU: `per_byte` for each byte plus `per_pdu`.
    pub(super) per_byte: u64,
    pub(super) per_pdu: u128,
    pub(super) max_sdu: u32,
}

impl Measures {
    /// Returns how far ahead of the time TAT can be: a conforming PDU finds at most the tolerance.
    fn most(&self) -> u128 {
        self.tolerance + u128::from(self.max_sdu) * u128::from(self.per_byte) + self.per_pdu
    }

    /// Returns the first instant at which a PDU conforms.
    fn conforms_at(&self, tat: u128) -> Instant {
        self.scale.instant_at_or_after(tat.saturating_sub(self.tolerance))
    }
}

/// A TAT from time zero on, at any rate.
///
/// The cheaper form is inlined into the caller, and one comparison decides whether it applies; the
/// other form is a call.
#[derive(Clone, Debug)]
pub(super) struct Fractions {
    narrow: Narrow,
    /// Used where `narrow` does not apply.
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

    /// Returns true if `TAT − τ ≤ now`, and then charges a PDU of `bytes`:
    /// `TAT = max(TAT, now) + T`.
    #[inline]
    pub(super) fn takes(&mut self, now: Instant, bytes: u32) -> bool {
        if !self.narrow.reaches(now) {
            return self.takes_out_of_line(now, bytes);
        }
        let may = self.narrow.may_come(now);
        if may {
            self.narrow.charge(now, bytes);
        }
        may
    }

    #[inline(never)]
    fn takes_out_of_line(&mut self, now: Instant, bytes: u32) -> bool {
        let may = self.may_come(now);
        if may {
            self.charge(now, bytes);
        }
        may
    }

    /// Restarts a narrow form that does not reach `now` there, if possible.
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

/// A TAT from time zero on. It is cheaper still if a byte takes whole nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Tat {
    whole: Whole,
    /// Used for instants that `whole` does not reach.
    fractions: Fractions,
}

impl Tat {
    pub(super) fn new(measures: Measures) -> Self {
        Self { whole: Whole::new(measures), fractions: Fractions::new(measures) }
    }

    /// Returns true if `TAT − τ ≤ now`, and then charges a PDU of `bytes`:
    /// `TAT = max(TAT, now) + T`.
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

    /// Returns the first instant at which a PDU conforms.
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
