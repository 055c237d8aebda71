//! The distribution of a measured time.

use alloc::string::String;
use core::fmt;

use thiserror::Error;

use crate::time::Duration;
use crate::units::{self, Fault, Quantity, UnitError};

/// A percentile, from 50 % to 100 %, in parts per million. 100 % is the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percentile(u32);

units::declared!(Percentile, Percentile, |text| {
    let too_low = UnitError { quantity: Quantity::Percentile, fault: Fault::TooLow };
    units::parse_ppm(text).and_then(|ppm| Self::from_ppm(ppm).ok_or(too_low))
});

impl Percentile {
    /// The median: half of the samples are at most this.
    pub const P50: Self = Self(500_000);
    /// The 99th percentile: 99 of 100 samples are at most this.
    pub const P99: Self = Self(990_000);

    /// Makes a percentile from parts per million; `None` below a half or above one.
    pub const fn from_ppm(ppm: u32) -> Option<Self> {
        if ppm >= 500_000 && ppm <= 1_000_000 { Some(Self(ppm)) } else { None }
    }

    /// Returns the percentile in parts per million.
    pub const fn as_ppm(self) -> u32 {
        self.0
    }

    /// Returns the smallest of `sorted` (ascending) that at least this part of the samples does not
    /// exceed. It is always one of the samples, without interpolation. `None` if there are none.
    pub fn of(self, sorted: &[Duration]) -> Option<Duration> {
        let rank = (sorted.len() as u128 * u128::from(self.0)).div_ceil(1_000_000);
        let at = usize::try_from(rank.saturating_sub(1)).ok()?;
        sorted.get(at).copied()
    }
}

/// Writes an exact percentage in the grammar of contracts: `99%`, `99.9%`.
impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, mut part, mut width) = (self.0 / 10_000, self.0 % 10_000, 4);
        if part == 0 {
            return write!(f, "{whole}%");
        }
        while part.is_multiple_of(10) {
            part /= 10;
            width -= 1;
        }
        write!(f, "{whole}.{part:0width$}%")
    }
}

/// A summary of the samples of one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    samples: u32,
    min: Duration,
    p50: Duration,
    p99: Duration,
    max: Duration,
}

/// The rule that a spread breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SpreadError {
    /// There are no samples.
    #[error("a spread needs at least one sample; leave the entry out")]
    NoSamples,
    /// The values are not in ascending order.
    #[error("min {min}, p50 {p50}, p99 {p99} and max {max} are not in ascending order")]
    NotAscending {
        /// The minimum given.
        min: Duration,
        /// The median given.
        p50: Duration,
        /// The 99th percentile given.
        p99: Duration,
        /// The maximum given.
        max: Duration,
    },
}

impl Spread {
    /// Makes a spread of `samples` samples, at least 1, with `min ≤ p50 ≤ p99 ≤ max`.
    pub fn new(samples: u32, [min, p50, p99, max]: [Duration; 4]) -> Result<Self, SpreadError> {
        if samples == 0 {
            return Err(SpreadError::NoSamples);
        }
        if !(min <= p50 && p50 <= p99 && p99 <= max) {
            return Err(SpreadError::NotAscending { min, p50, p99, max });
        }
        Ok(Self { samples, min, p50, p99, max })
    }

    /// Summarises samples in ascending order; `None` if there are none.
    pub fn of(sorted: &[Duration]) -> Option<Self> {
        debug_assert!(sorted.is_sorted());
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let (p50, p99) = (Percentile::P50.of(sorted)?, Percentile::P99.of(sorted)?);
        let samples = u32::try_from(sorted.len()).unwrap_or(u32::MAX);
        Some(Self { samples, min, p50, p99, max })
    }

    /// Returns the number of samples, at least 1.
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Returns the smallest sample.
    pub fn min(&self) -> Duration {
        self.min
    }

    /// Returns the median: half of the samples are at most this.
    pub fn p50(&self) -> Duration {
        self.p50
    }

    /// Returns the 99th percentile: 99 of 100 samples are at most this.
    pub fn p99(&self) -> Duration {
        self.p99
    }

    /// Returns the largest sample.
    pub fn max(&self) -> Duration {
        self.max
    }
}

/// The scheduling class under which a measurement was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// SCHED_OTHER.
    Other,
    /// SCHED_FIFO.
    Fifo,
    /// SCHED_DEADLINE.
    Deadline,
}

/// The samples of one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// The scheduling class.
    pub under: Under,
    /// The distribution of the samples.
    pub spread: Spread,
    /// Samples that were discarded because the hypervisor took processor time during them.
    pub discarded: u32,
    /// The processor time that the hypervisor took, on all CPUs together.
    pub stolen: Duration,
}

/// The charge for the steps of sending or receiving at admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepCharge<C> {
    /// The cost of each step (real-time channels, Table 1).
    pub costs: C,
    /// The path of the measured packets, in words: a kind of link, or an address. `None`: not
    /// stated.
    pub path: Option<String>,
    /// The largest packet that the charge covers, in bytes without headers; at least 1. `None`: not
    /// stated.
    pub largest_packet: Option<u32>,
    /// The percentile of all steps. `None`: not stated.
    pub percentile: Option<Percentile>,
}

impl Under {
    /// All classes with their names in files and reports.
    pub const NAMES: [(&'static str, Self); 3] =
        [("other", Self::Other), ("fifo", Self::Fifo), ("deadline", Self::Deadline)];

    /// Returns the name in files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Fifo => "fifo",
            Self::Deadline => "deadline",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    fn nanos(of: impl IntoIterator<Item = u64>) -> Vec<Duration> {
        of.into_iter().map(Duration::from_nanos).collect()
    }

    /// Finds a percentile by its definition: tries each sample and counts those that do not exceed
    /// it.
    fn oracle(sorted: &[Duration], percentile: Percentile) -> Option<Duration> {
        sorted.iter().copied().find(|sample| {
            let within = sorted.iter().filter(|other| *other <= sample).count() as u64;
            within * 1_000_000 >= sorted.len() as u64 * u64::from(percentile.as_ppm())
        })
    }

    #[test]
    fn a_percentile_is_the_sample_that_its_definition_finds() {
        for count in 0..130u64 {
            let sorted = nanos((0..count).map(|at| at * at / 7));
            for ppm in [500_000, 500_001, 750_000, 990_000, 999_000, 1_000_000] {
                let percentile = Percentile::from_ppm(ppm).expect("valid");
                assert_eq!(percentile.of(&sorted), oracle(&sorted, percentile), "{ppm} of {count}");
            }
        }
    }

    #[test]
    fn percentiles_are_from_a_half_to_one_and_print_in_the_grammar() {
        assert!(
            Percentile::from_ppm(499_999).is_none() && Percentile::from_ppm(1_000_001).is_none()
        );
        for (ppm, text) in [
            (500_000, "50%"),
            (990_000, "99%"),
            (999_000, "99.9%"),
            (999_999, "99.9999%"),
            (1_000_000, "100%"),
        ] {
            assert_eq!(Percentile::from_ppm(ppm).expect("valid").to_string(), text);
            assert_eq!(crate::units::parse_ppm(text), Ok(ppm));
        }
    }

    #[test]
    fn a_spread_is_in_order_and_of_something() {
        let spread = Spread::of(&nanos(1..=200)).expect("some");
        assert_eq!(spread.samples(), 200);
        let seen = [spread.min(), spread.p50(), spread.p99(), spread.max()];
        assert_eq!(seen.to_vec(), nanos([1, 100, 198, 200]));
        assert_eq!(Spread::new(200, seen), Ok(spread));
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::new(0, seen), Err(SpreadError::NoSamples));
        let [min, p50, p99, max] = seen;
        let refused = Spread::new(1, [min, p99, p50, max]);
        assert!(matches!(refused, Err(SpreadError::NotAscending { .. })));
    }
}
