//! Time in fractions of a nanosecond in which every PDU's time is whole.

use punctual_model::Instant;
use punctual_model::channel::BitRate;

/// Bits in a byte times nanoseconds in a second.
const BIT_NANOS_PER_BYTE: u64 = 8_000_000_000;

/// The unit of time of a rate. At `rate` a byte takes `8·10⁹ / rate` ns: in lowest terms,
/// `per_byte / per_nano`. A tick is `1 / per_nano` ns, so that bytes and nanoseconds are both whole
/// ticks.
///
/// Rates are at most 10¹² < 2⁴⁰ bit/s: any instant is below 2¹⁰⁴ ticks, and any PDU below 2⁶⁵.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    /// Ticks of a nanosecond, at least 1.
    pub(super) per_nano: u64,
    /// Ticks of a byte, at least 1.
    pub(super) per_byte: u64,
}

impl Scale {
    pub(super) fn new(rate: BitRate) -> Self {
        let rate = rate.bits_per_second();
        let common = gcd(BIT_NANOS_PER_BYTE, rate);
        Self { per_nano: rate / common, per_byte: BIT_NANOS_PER_BYTE / common }
    }

    /// Returns nanoseconds as ticks.
    #[inline]
    pub(super) fn ticks(self, nanos: u64) -> u128 {
        u128::from(nanos) * u128::from(self.per_nano)
    }

    /// Returns the first instant that is not before `ticks`, or the last instant if it is beyond.
    pub(super) fn instant_at_or_after(self, ticks: u128) -> Instant {
        let nanos = ticks.div_ceil(u128::from(self.per_nano));
        u64::try_from(nanos).map_or(Instant::MAX, Instant::from_nanos)
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_nanoseconds_are_whole_ticks() {
        let of = |bits| Scale::new(BitRate::new(bits).expect("valid"));
        assert_eq!(of(10_000_000), Scale { per_nano: 1, per_byte: 800 });
        assert_eq!(of(12_000_000_000), Scale { per_nano: 3, per_byte: 2 });
        assert_eq!(of(1), Scale { per_nano: 1, per_byte: 8_000_000_000 });
        assert_eq!(of(7), Scale { per_nano: 7, per_byte: 8_000_000_000 });
        let scale = of(12_000_000_000);
        for (ticks, nanos) in [(0, 0), (1, 1), (3, 1), (4, 2)] {
            assert_eq!(scale.instant_at_or_after(ticks).as_nanos(), nanos);
        }
        assert_eq!(scale.instant_at_or_after(scale.ticks(u64::MAX)), Instant::MAX);
        assert_eq!(scale.instant_at_or_after(u128::MAX), Instant::MAX);
    }
}
