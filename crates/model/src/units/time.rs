//! Times: of work, of waiting, of a byte on a link.

use core::fmt;

use super::decimal::{self, Decimal};
use super::{Fault, Quantity, UnitError};

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
    let parsed = decimal::split(text).and_then(|(number, unit)| match picos_of(unit)? {
        // Picoseconds are too fine for this quantity, so their unit is unknown here.
        1 => Err(Fault::UnknownUnit),
        picos => Decimal::parse(number)?.times(picos / 1_000, MAX_NANOS),
    });
    Quantity::Time.named(parsed)
}

/// Parses the time of a byte into picoseconds, exactly: `"0.8ns"` (10 Gbit/s) is 800.
pub fn parse_picos_per_byte(text: &str) -> Result<u64, UnitError> {
    let parsed = decimal::split(text).and_then(|(number, unit)| {
        Decimal::parse(number)?.times(picos_of(unit)?, MAX_PICOS_PER_BYTE)
    });
    Quantity::TimePerByte.named(parsed)
}

fn picos_of(unit: &str) -> Result<u64, Fault> {
    UNITS.iter().find(|(name, _)| *name == unit).map(|&(_, picos)| picos).ok_or(Fault::UnknownUnit)
}

/// Writes nanoseconds exactly, in the largest unit whose value is at least one.
pub fn write_nanos(f: &mut fmt::Formatter<'_>, ns: u64) -> fmt::Result {
    let (unit, scale, digits) = match ns {
        1_000_000_000.. => ("s", 1_000_000_000, 9),
        1_000_000.. => ("ms", 1_000_000, 6),
        1_000.. => ("us", 1_000, 3),
        _ => ("ns", 1, 0),
    };
    let (whole, mut fraction, mut width) = (ns / scale, ns % scale, digits);
    if fraction == 0 {
        return f.pad(&alloc::format!("{whole}{unit}"));
    }
    while fraction % 10 == 0 {
        fraction /= 10;
        width -= 1;
    }
    f.pad(&alloc::format!("{whole}.{fraction:0width$}{unit}"))
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
}
