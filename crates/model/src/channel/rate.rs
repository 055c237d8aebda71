//! Data rates in whole bits a second.

use core::fmt;

use thiserror::Error;

use crate::time::Duration;
use crate::units::{self, Fault, Quantity, UnitError};

/// Bits in a byte times nanoseconds in a second: times bytes, divided by a rate, it is a time.
const BIT_NANOS_PER_BYTE: u128 = 8 * 1_000_000_000;

/// A data rate, from 1 bit/s to 1 Tbit/s: the range in which every formula fits 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitRate(u64);

/// The reason that a number is not a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RateError {
    /// The rate is zero.
    #[error("the rate is zero; it must be at least 1 bit/s")]
    Zero,
    /// The rate is beyond what the analysis supports.
    #[error("the rate {0} bit/s is above 1 Tbit/s, the most a contract may name")]
    AboveOneTerabit(u64),
}

units::declared!(BitRate, Rate, |text| {
    let zero = UnitError { quantity: Quantity::Rate, fault: Fault::Zero };
    units::parse_bits_per_second(text).and_then(|bits| Self::new(bits).map_err(|_| zero))
});

impl BitRate {
    /// The largest rate that a contract may name.
    pub const MAX: Self = Self(1_000_000_000_000);

    /// Makes a rate of `bits` a second.
    pub fn new(bits: u64) -> Result<Self, RateError> {
        match bits {
            0 => Err(RateError::Zero),
            bits if bits > Self::MAX.0 => Err(RateError::AboveOneTerabit(bits)),
            bits => Ok(Self(bits)),
        }
    }

    /// Returns the least rate that sends `bytes` in every `time`; `None` if that is no valid rate.
    pub fn at_least(bytes: u32, time: Duration) -> Option<Self> {
        if time.is_zero() {
            return None;
        }
        let bits = (u128::from(bytes) * BIT_NANOS_PER_BYTE).div_ceil(u128::from(time.as_nanos()));
        Self::new(u64::try_from(bits).ok()?).ok()
    }

    /// Returns the rate in bits a second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// Returns the time that `bytes` take at this rate, rounded down. As a spacing it never
    /// understates load.
    pub fn time_of_below(self, bytes: u32) -> Duration {
        // At most 2³² × 8·10⁹ < 2⁶⁶, so the time may not fit at a few bits a second; it is then the
        // maximum.
        let nanos = u128::from(bytes) * BIT_NANOS_PER_BYTE / u128::from(self.0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bit/s", self.0)
    }
}
