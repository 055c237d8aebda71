//! How far a sender is ahead of its rate, in ticks: in 64 bits where they are enough, else in 128.

use core::hint::select_unpredictable;

use punctual_model::Instant;

use super::scale::Scale;

/// What is left of the time that the PDUs so far take at the rate: `max(0, TAT − now)`.
pub(super) trait Bucket {
    /// An amount of time.
    type Ticks: Copy;
    /// What is left at `now`.
    fn left(&self, now: Instant) -> Self::Ticks;
    /// Whether a PDU may come with so much left.
    fn may_come(&self, left: Self::Ticks) -> bool;
    /// One of `bytes` came.
    fn charge(&mut self, now: Instant, left: Self::Ticks, bytes: u32);
    /// The first instant at which one may come.
    fn conforms_at(&self) -> Instant;
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

/// For what any contract is likely to ask.
#[derive(Clone, Debug)]
pub(super) struct Narrow {
    left: u64,
    last: Instant,
    /// After so many nanoseconds nothing can be left, however much it was.
    empty_after: u64,
    tolerance: u64,
    per_byte: u64,
    per_pdu: u64,
    scale: Scale,
}

impl Narrow {
    /// `None`: 64 bits are not enough.
    pub(super) fn new(measures: Measures) -> Option<Self> {
        let Measures { scale, tolerance, per_byte, per_pdu, max_sdu } = measures;
        // A conforming PDU finds at most the tolerance left.
        let most = tolerance + u128::from(max_sdu) * u128::from(per_byte) + per_pdu;
        let empty_after = u64::try_from(most / u128::from(scale.per_nano)).ok()?.checked_add(1)?;
        // No product or sum below is larger than that.
        empty_after.checked_mul(scale.per_nano)?;
        let (tolerance, per_pdu) = (u64::try_from(tolerance).ok()?, u64::try_from(per_pdu).ok()?);
        let (left, last) = (0, Instant::ZERO);
        Some(Self { left, last, empty_after, tolerance, per_byte, per_pdu, scale })
    }
}

impl Bucket for Narrow {
    type Ticks = u64;

    // Whether all has drained away is a coin's toss for a sender near its rate: a misprediction each
    // other time would cost more than all the rest.
    #[inline]
    fn left(&self, now: Instant) -> u64 {
        let passed = now.as_nanos().saturating_sub(self.last.as_nanos());
        let passed = select_unpredictable(passed < self.empty_after, passed, self.empty_after);
        let drained = passed.wrapping_mul(self.scale.per_nano);
        select_unpredictable(self.left > drained, self.left.wrapping_sub(drained), 0)
    }

    #[inline]
    fn may_come(&self, left: u64) -> bool {
        left <= self.tolerance
    }

    #[inline]
    fn charge(&mut self, now: Instant, left: u64, bytes: u32) {
        let cost = u64::from(bytes).wrapping_mul(self.per_byte).wrapping_add(self.per_pdu);
        self.left = left.wrapping_add(cost);
        self.last = now;
    }

    fn conforms_at(&self) -> Instant {
        let early = self.left.saturating_sub(self.tolerance);
        self.scale.after(self.last, u128::from(early))
    }
}

/// For the rest: a tolerance of hours at a rate that divides nothing.
#[derive(Clone, Debug)]
pub(super) struct Wide {
    left: u128,
    last: Instant,
    measures: Measures,
}

impl Wide {
    pub(super) fn new(measures: Measures) -> Self {
        Self { left: 0, last: Instant::ZERO, measures }
    }
}

impl Bucket for Wide {
    type Ticks = u128;

    fn left(&self, now: Instant) -> u128 {
        let passed = now.saturating_since(self.last).as_nanos();
        self.left.saturating_sub(self.measures.scale.ticks(passed))
    }

    fn may_come(&self, left: u128) -> bool {
        left <= self.measures.tolerance
    }

    fn charge(&mut self, now: Instant, left: u128, bytes: u32) {
        let Measures { per_byte, per_pdu, .. } = self.measures;
        self.left = left + u128::from(bytes) * u128::from(per_byte) + per_pdu;
        self.last = now;
    }

    fn conforms_at(&self) -> Instant {
        let early = self.left.saturating_sub(self.measures.tolerance);
        self.measures.scale.after(self.last, early)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::channel::BitRate;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn measures(bits: u64, tolerance: u64, max_sdu: u32) -> Measures {
        let scale = Scale::new(BitRate::new(bits).expect("valid"));
        let tolerance = scale.ticks(tolerance);
        Measures { scale, tolerance, per_byte: scale.per_byte, per_pdu: 7, max_sdu }
    }

    #[test]
    fn both_widths_say_the_same() {
        let mut early = 0;
        for seed in 0..1_000 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let bits = rng.random_range(1_000_000..20_000_000_000);
            // The time of the largest PDU.
            let mean = 12_000_000_000_000 / bits;
            let measures = measures(bits, rng.random_range(0..mean), 1_500);
            let mut narrow = Narrow::new(measures).expect("milliseconds fit");
            let mut wide = Wide::new(measures);
            let mut now = rng.random_range(0..u64::MAX / 2);
            for _ in 0..50 {
                now += rng.random_range(0..2 * mean + 2) * u64::from(rng.random_bool(0.8));
                let (at, bytes) = (Instant::from_nanos(now), rng.random_range(0..=1_500));
                let (n, w) = (narrow.left(at), wide.left(at));
                assert_eq!(u128::from(n), w, "seed {seed}");
                assert_eq!(narrow.conforms_at(), wide.conforms_at(), "seed {seed}");
                assert_eq!(narrow.may_come(n), wide.may_come(w), "seed {seed}");
                if wide.may_come(w) {
                    narrow.charge(at, n, bytes);
                    wide.charge(at, w, bytes);
                } else {
                    early += 1;
                }
            }
        }
        assert!(early > 1_000, "{early}");
    }

    #[test]
    fn what_does_not_fit_64_bits_is_not_narrow() {
        assert!(Narrow::new(measures(8_000_000_000, u64::MAX - 100_000, 1_500)).is_some());
        assert!(Narrow::new(measures(8_000_000_000, u64::MAX, 1_500)).is_none());
        assert!(Narrow::new(measures(999_999_999_989, 1_000_000_000, 1_500)).is_none());
        assert!(Narrow::new(measures(1, 0, u32::MAX)).is_none());
    }
}
