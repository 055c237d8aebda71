//! Quantities with their unit: `"40ms"`, `"1.84ms"`, `"120us"`.
//!
//! Parsing is exact integer arithmetic: what cannot be said in whole nanoseconds is refused
//! rather than rounded.

use core::fmt;

use thiserror::Error;

use crate::time::{Duration, Service};

/// The longest time a contract may name: a day. It keeps every sum that the analysis forms over a
/// bounded number of tasks inside 64 bits.
pub const MAX_NANOS: u64 = 24 * 3600 * 1_000_000_000;

const UNITS: [(&str, u64); 5] =
    [("ns", 1), ("us", 1_000), ("µs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// Why a text is not a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UnitError {
    /// Nothing there.
    #[error("is empty; write a number with its unit, such as \"40ms\"")]
    Empty,
    /// `"40"`: a number alone.
    #[error("has no unit; write ns, us, ms or s after the number, such as \"40ms\"")]
    MissingUnit,
    /// `"40min"`: not one of ours.
    #[error("has an unknown unit; use ns, us, ms or s, such as \"40ms\"")]
    UnknownUnit,
    /// `"x4ms"`, `"1.2.3ms"`, `"-1ms"`.
    #[error("is not a plain decimal number with a unit; write it like \"1.84ms\"")]
    NotANumber,
    /// `"0.5ns"`: finer than a nanosecond.
    #[error("is finer than one nanosecond")]
    TooFine,
    /// More than [`MAX_NANOS`].
    #[error("is longer than a day, the most a contract may name")]
    TooLong,
}

/// Parses a decimal number with a unit into nanoseconds, exactly.
pub fn parse_nanos(text: &str) -> Result<u64, UnitError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(UnitError::Empty);
    }
    let split =
        text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim_start());
    if number.is_empty() {
        return Err(UnitError::NotANumber);
    }
    if unit.is_empty() {
        return Err(UnitError::MissingUnit);
    }
    let Some(&(_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        let wordlike = unit.chars().all(char::is_alphabetic);
        return Err(if wordlike { UnitError::UnknownUnit } else { UnitError::NotANumber });
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let whole = parse_digits(whole)?;
    let mut nanos = whole.checked_mul(scale).ok_or(UnitError::TooLong)?;
    let fraction = fraction.trim_end_matches('0');
    if !fraction.is_empty() {
        // `scale` is a power of ten, so each digit has a place value until it reaches 1/10 ns.
        let mut place = scale;
        for digit in fraction.chars() {
            let digit = digit.to_digit(10).ok_or(UnitError::NotANumber)?;
            if place == 1 {
                return Err(UnitError::TooFine);
            }
            place /= 10;
            nanos = nanos.checked_add(place * u64::from(digit)).ok_or(UnitError::TooLong)?;
        }
    }
    if nanos > MAX_NANOS { Err(UnitError::TooLong) } else { Ok(nanos) }
}

fn parse_digits(digits: &str) -> Result<u64, UnitError> {
    if digits.is_empty() {
        return Err(UnitError::NotANumber);
    }
    digits.chars().filter(|&c| c != '_').try_fold(0u64, |value, c| {
        let digit = c.to_digit(10).ok_or(UnitError::NotANumber)?;
        value
            .checked_mul(10)
            .and_then(|v| v.checked_add(u64::from(digit)))
            .ok_or(UnitError::TooLong)
    })
}

/// `work` in every `period`, in parts per million of a CPU, rounded up. At most 1,000,000, because
/// nothing that is valid needs more than its period.
pub(crate) fn share_ppm(work: Service, period: Duration) -> u64 {
    let scaled = u128::from(work.as_nanos()) * 1_000_000;
    scaled.div_ceil(u128::from(period.as_nanos())) as u64
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
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, why) in [
            ("", UnitError::Empty),
            ("40", UnitError::MissingUnit),
            ("40min", UnitError::UnknownUnit),
            ("-1ms", UnitError::NotANumber),
            ("1.2.3ms", UnitError::NotANumber),
            ("ms", UnitError::NotANumber),
            ("0.5ns", UnitError::TooFine),
            ("1.0001us", UnitError::TooFine),
            ("86401s", UnitError::TooLong),
            ("99999999999999999999999s", UnitError::TooLong),
        ] {
            assert_eq!(parse_nanos(text), Err(why), "{text:?}");
        }
    }
}
