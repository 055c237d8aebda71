//! Frequencies and shares.

use alloc::format;
use alloc::string::String;

use super::decimal::{self, Decimal};
use super::time::MAX_NANOS;
use super::{Fault, Quantity, UnitError};
use crate::time::{Duration, Service};

/// Parses a frequency into the time between two events in nanoseconds, rounded *down*: `"29.97/s"`
/// is 33,366,700 ns. A shorter time asks for more, so no promise falls short.
pub fn parse_period(text: &str) -> Result<u64, UnitError> {
    let parsed = decimal::split(text).and_then(|(number, unit)| {
        if unit != "/s" {
            return Err(Fault::UnknownUnit);
        }
        let nanos = Decimal::parse(number)?.divide(1_000_000_000).ok_or(Fault::Zero)?;
        match u64::try_from(nanos) {
            Ok(0) => Err(Fault::TooFine),
            Ok(nanos) if nanos <= MAX_NANOS => Ok(nanos),
            _ => Err(Fault::TooLarge),
        }
    });
    Quantity::Frequency.named(parsed)
}

/// Parses a percentage into parts per million, exactly: `"0.5%"` is 5,000.
pub fn parse_ppm(text: &str) -> Result<u32, UnitError> {
    let parsed = percentage(text, 1_000_000);
    Quantity::Part.named(parsed.and_then(|ppm| u32::try_from(ppm).map_err(|_| Fault::TooLarge)))
}

/// Parses a share of up to ten thousand CPUs into parts per million of one, exactly: `"150%"` is one
/// and a half.
pub fn parse_share(text: &str) -> Result<u64, UnitError> {
    Quantity::Share.named(percentage(text, 10_000 * 1_000_000))
}

fn percentage(text: &str, most: u64) -> Result<u64, Fault> {
    let (number, unit) = decimal::split(text)?;
    if unit != "%" {
        return Err(Fault::UnknownUnit);
    }
    Decimal::parse(number)?.times(10_000, most)
}

/// Returns `work` in every `period` in parts per million of a CPU, rounded up. It is at most
/// 1,000,000, because valid work fits in its period.
pub(crate) fn share_ppm(work: Service, period: Duration) -> u64 {
    let scaled = u128::from(work.as_nanos()) * 1_000_000;
    scaled.div_ceil(u128::from(period.as_nanos())) as u64
}

/// Writes a share in percent, exactly and with at least one decimal: "12.5 %", "93.0001 %". Two
/// shares that differ look different.
pub fn percent(ppm: u64) -> String {
    let (whole, decimals) = (ppm / 10_000, format!("{:04}", ppm % 10_000));
    let (tenth, others) = decimals.split_at(1);
    format!("{whole}.{tenth}{} %", others.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault<T>(parsed: Result<T, UnitError>) -> Option<Fault> {
        parsed.err().map(|error| error.fault)
    }

    #[test]
    fn frequencies_become_periods_rounded_down() {
        for (text, nanos) in [
            ("25/s", 40_000_000),
            ("29.97/s", 33_366_700),
            ("3/s", 333_333_333),
            ("0.5 /s", 2_000_000_000),
            ("1_000_000_000/s", 1),
        ] {
            assert_eq!(parse_period(text), Ok(nanos), "{text}");
        }
        for (text, wanted) in [
            ("0/s", Fault::Zero),
            ("10/min", Fault::UnknownUnit),
            ("25Hz", Fault::UnknownUnit),
            ("25", Fault::MissingUnit),
            ("1000000001/s", Fault::TooFine),
            ("0.00001/s", Fault::TooLarge),
        ] {
            assert_eq!(fault(parse_period(text)), Some(wanted), "{text}");
        }
    }

    #[test]
    fn shares_that_differ_look_different() {
        for (ppm, text) in [
            (0, "0.0 %"),
            (125_000, "12.5 %"),
            (930_000, "93.0 %"),
            (930_001, "93.0001 %"),
            (1_200_010, "120.001 %"),
        ] {
            assert_eq!(percent(ppm), text);
        }
    }

    #[test]
    fn percentages_are_exact_parts_per_million() {
        for (text, ppm) in [("0%", 0), ("0.5%", 5_000), ("12.0001 %", 120_001), ("100%", 1_000_000)]
        {
            assert_eq!(parse_ppm(text), Ok(ppm), "{text}");
        }
        for (text, wanted) in [
            ("0.00001%", Fault::TooFine),
            ("100.0001%", Fault::TooLarge),
            ("5", Fault::MissingUnit),
            ("5ppm", Fault::UnknownUnit),
        ] {
            assert_eq!(fault(parse_ppm(text)), Some(wanted), "{text}");
        }
    }
}
