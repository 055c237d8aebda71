//! Times (of work, of waiting, of a byte on a link), frequencies and shares.

use alloc::format;
use alloc::string::String;

use super::quantity::Decimal;
use super::{Fault, Quantity, UnitError, quantity};
use crate::time::{Duration, Service};

/// The longest time that a contract may name: a day. It keeps every sum that the analysis forms
/// over a bounded number of tasks inside 64 bits.
pub const MAX_NANOS: u64 = 24 * 3600 * 1_000_000_000;

/// The longest time of a byte: 1 ms, in picoseconds.
pub const MAX_PICOS_PER_BYTE: u64 = 1_000_000_000;

/// Units in picoseconds.
const UNITS: [(&str, u64); 6] = [
    ("ps", 1),
    ("ns", 1_000),
    ("us", 1_000_000),
    ("µs", 1_000_000),
    ("ms", 1_000_000_000),
    ("s", 1_000_000_000_000),
];

/// Parses a decimal number with a unit into nanoseconds, exactly.
pub fn parse_nanos(text: &str) -> Result<u64, UnitError> {
    let parsed = quantity::split(text).and_then(|(number, unit)| match picos_of(unit)? {
        // Picoseconds are too fine for this quantity, so their unit is unknown here.
        1 => Err(Fault::UnknownUnit),
        picos => Decimal::parse(number)?.times(picos / 1_000, MAX_NANOS),
    });
    Quantity::Time.named(parsed)
}

/// Parses the time of a byte into picoseconds, exactly: `"0.8ns"` (10 Gbit/s) is 800.
pub fn parse_picos_per_byte(text: &str) -> Result<u64, UnitError> {
    let parsed = quantity::split(text).and_then(|(number, unit)| {
        Decimal::parse(number)?.times(picos_of(unit)?, MAX_PICOS_PER_BYTE)
    });
    Quantity::TimePerByte.named(parsed)
}

fn picos_of(unit: &str) -> Result<u64, Fault> {
    UNITS.iter().find(|(name, _)| *name == unit).map(|&(_, picos)| picos).ok_or(Fault::UnknownUnit)
}

/// Parses a frequency into the time between two events in nanoseconds, rounded *down*: `"29.97/s"`
/// is 33,366,700 ns. A shorter time asks for more, so no promise falls short.
pub fn parse_period(text: &str) -> Result<u64, UnitError> {
    let parsed = quantity::split(text).and_then(|(number, unit)| {
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
    let (number, unit) = quantity::split(text)?;
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

    #[test]
    fn exact_decimals() {
        assert_eq!(parse_nanos("40ms"), Ok(40_000_000));
        assert_eq!(parse_nanos(" 1.84 ms "), Ok(1_840_000));
        assert_eq!(parse_nanos("312.5us"), Ok(312_500));
        assert_eq!(parse_nanos("312.5µs"), Ok(312_500));
        assert_eq!(parse_nanos("1_000ns"), Ok(1_000));
        assert_eq!(parse_nanos("0.000000001s"), Ok(1));
        assert_eq!(parse_nanos("1.50s"), Ok(1_500_000_000));
        assert_eq!(parse_nanos("86400s"), Ok(MAX_NANOS));
        assert_eq!(parse_picos_per_byte("50ns"), Ok(50_000));
        assert_eq!(parse_picos_per_byte("0.8ns"), Ok(800));
        assert_eq!(parse_picos_per_byte("80ps"), Ok(80));
    }

    #[test]
    fn errors_name_their_cause() {
        for (text, why) in [
            ("", Fault::Empty),
            ("40", Fault::MissingUnit),
            ("40min", Fault::UnknownUnit),
            ("40ps", Fault::UnknownUnit),
            ("-1ms", Fault::NotANumber),
            ("1.2.3ms", Fault::NotANumber),
            ("ms", Fault::NotANumber),
            ("0.5ns", Fault::TooFine),
            ("1.0001us", Fault::TooFine),
            ("0.0000000000000000001s", Fault::TooFine),
            ("86401s", Fault::TooLarge),
            ("99999999999999999999999s", Fault::TooLarge),
        ] {
            assert_eq!(parse_nanos(text).map_err(|error| error.fault), Err(why), "{text:?}");
        }
        let slow = parse_picos_per_byte("1.1ms").map_err(|error| error.fault);
        assert_eq!(slow, Err(Fault::TooLarge));
    }

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
