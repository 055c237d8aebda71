//! The definition in 128 bits, for numbers that 64 bits do not hold.

use punctual_model::Instant;

use super::{Bucket, Measures};

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
