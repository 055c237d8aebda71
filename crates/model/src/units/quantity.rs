//! The quantity that a text should be, its error, and the decimal number and the unit that the text
//! has.

use core::fmt;

/// The most digits after the point. No quantity can hold finer values.
const MAX_FRACTION_DIGITS: usize = 18;

/// The quantity that a text should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A length of time or an amount of work, in nanoseconds.
    Time,
    /// The time of a byte, in picoseconds.
    TimePerByte,
    /// An amount of data, in bytes.
    Size,
    /// The size of one message, frame or packet, in bytes.
    Message,
    /// A data rate, in bits a second.
    Rate,
    /// A frequency, parsed into the time between two events.
    Frequency,
    /// A part of a whole, in parts per million.
    Part,
    /// A share of one CPU or of several, in parts per million of one.
    Share,
    /// A percentile of a distribution, in parts per million.
    Percentile,
}

/// The error in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is no text.
    Empty,
    /// `"40"`: a number without unit.
    MissingUnit,
    /// `"40min"`: a unit that is not supported.
    UnknownUnit,
    /// `"4KB"`, `"4mb/s"`: a unit with more than one common meaning.
    AmbiguousUnit,
    /// `"x4ms"`, `"1.2.3ms"`, `"-1ms"`: not a number.
    NotANumber,
    /// `"0.5ns"`: finer than the smallest unit counted.
    TooFine,
    /// More than a contract may name.
    TooLarge,
    /// `"0/s"`, `"0bit/s"`: an event or a byte that never comes. No other zero is invalid by itself.
    Zero,
    /// `"9%"`: a percentile below the median.
    TooLow,
}

/// The reason that a text is not the quantity it should be. The message continues the text:
/// `"40" has no unit; …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitError {
    /// The quantity that the text should be.
    pub quantity: Quantity,
    /// The error in the text.
    pub fault: Fault,
}

impl core::error::Error for UnitError {}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quantity, fault } = *self;
        let (units, example) = (quantity.units(), quantity.example());
        match fault {
            Fault::Empty => write!(f, "is empty; write a number with its unit, such as {example}"),
            Fault::MissingUnit => {
                write!(f, "has no unit; write {units} after the number, such as {example}")
            }
            Fault::UnknownUnit => write!(f, "has an unknown unit; use {units}, such as {example}"),
            Fault::AmbiguousUnit => {
                write!(f, "has an ambiguous unit; {}", quantity.unambiguous())
            }
            Fault::NotANumber => write!(
                f,
                "is not a plain decimal number with a unit; write it like {}",
                quantity.decimal_example()
            ),
            Fault::TooFine => write!(f, "is finer than {}", quantity.finest()),
            Fault::TooLarge => {
                write!(f, "is {}, the most a contract may name", quantity.too_large())
            }
            Fault::Zero => write!(f, "is zero; it must be more, such as {example}"),
            Fault::TooLow => write!(f, "is below 50%; half would cost more"),
        }
    }
}

impl Quantity {
    /// Lists the units for a message.
    pub fn units(self) -> &'static str {
        match self {
            Self::Time => "ns, us, ms or s",
            Self::TimePerByte => "ps, ns or us",
            Self::Size | Self::Message => {
                "B, kB, MB or GB (powers of 1000), or KiB, MiB or GiB (of 1024)"
            }
            Self::Rate => "bit/s, kbit/s, mbit/s or gbit/s (or bytes: B/s, kB/s, KiB/s, …)",
            Self::Frequency => "/s",
            Self::Part | Self::Share | Self::Percentile => "%",
        }
    }

    /// Returns the unit that a number without one most likely had.
    pub fn likely_unit(self) -> &'static str {
        match self {
            Self::Time => "ms",
            Self::TimePerByte => "ns",
            Self::Size | Self::Message => "B",
            Self::Rate => "bit/s",
            Self::Frequency => "/s",
            Self::Part | Self::Share | Self::Percentile => "%",
        }
    }

    fn example(self) -> &'static str {
        match self {
            Self::Time => "\"40ms\"",
            Self::TimePerByte => "\"50ns\"",
            Self::Size | Self::Message => "\"4KiB\"",
            Self::Rate => "\"10mbit/s\"",
            Self::Frequency => "\"25/s\"",
            Self::Part | Self::Share | Self::Percentile => "\"1%\"",
        }
    }

    fn decimal_example(self) -> &'static str {
        match self {
            Self::Time => "\"1.84ms\"",
            Self::TimePerByte => "\"0.8ns\"",
            Self::Size | Self::Message => "\"1.5KiB\"",
            Self::Rate => "\"12.5mbit/s\"",
            Self::Frequency => "\"29.97/s\"",
            Self::Part | Self::Share | Self::Percentile => "\"0.5%\"",
        }
    }

    fn finest(self) -> &'static str {
        match self {
            Self::Time => "one nanosecond",
            Self::TimePerByte => "one picosecond",
            Self::Size | Self::Message => "one byte",
            Self::Rate => "one bit a second",
            Self::Frequency => "18 digits after the point, or above one a nanosecond",
            Self::Part | Self::Share | Self::Percentile => "one part per million, 0.0001%",
        }
    }

    fn too_large(self) -> &'static str {
        match self {
            Self::Time => "longer than a day",
            Self::TimePerByte => "longer than 1ms",
            Self::Size => "more than 1024 TiB",
            Self::Message => "more than 4294967295B",
            Self::Rate => "above 1000 gbit/s",
            Self::Frequency => "rarer than once a day",
            Self::Part | Self::Percentile => "above 100%",
            Self::Share => "above 1000000%",
        }
    }

    /// Says what to write instead of an ambiguous unit. Only data has such units.
    fn unambiguous(self) -> &'static str {
        match self {
            Self::Rate => {
                "write kbit/s or mbit/s for bits, or kB/s (1000) or KiB/s (1024) for bytes"
            }
            _ => "write kB for 1000 bytes or KiB for 1024, which is what older papers call KB",
        }
    }

    fn fault<T>(self, fault: Fault) -> Result<T, UnitError> {
        Err(UnitError { quantity: self, fault })
    }

    /// Adds the expected quantity to the error of `parsed`.
    pub(super) fn named<T>(self, parsed: Result<T, Fault>) -> Result<T, UnitError> {
        parsed.or_else(|fault| self.fault(fault))
    }
}

/// `whole + fraction / one`, with `one` a power of ten and `fraction < one`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    whole: u64,
    fraction: u64,
    one: u64,
}

/// Splits `text` into its number and its unit without checking them.
pub(super) fn split(text: &str) -> Result<(&str, &str), Fault> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Fault::Empty);
    }
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim_start());
    if number.is_empty() {
        return Err(Fault::NotANumber);
    }
    if unit.is_empty() {
        return Err(Fault::MissingUnit);
    }
    // If the rest begins like a sign or a digit, it is a broken number, not a unit.
    if !unit.starts_with(|c: char| c.is_alphabetic() || c == '/' || c == '%') {
        return Err(Fault::NotANumber);
    }
    Ok((number, unit))
}

impl Decimal {
    /// Parses `1`, `1_000` or `1.84`.
    pub(super) fn parse(number: &str) -> Result<Self, Fault> {
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let whole = digits(whole)?;
        let fraction = fraction.trim_end_matches('0');
        if fraction.is_empty() {
            return Ok(Self { whole, fraction: 0, one: 1 });
        }
        if fraction.bytes().any(|byte| !byte.is_ascii_digit()) {
            return Err(Fault::NotANumber);
        }
        if fraction.len() > MAX_FRACTION_DIGITS {
            return Err(Fault::TooFine);
        }
        // At most 18 digits, so neither overflows.
        let one = fraction.bytes().fold(1, |one, _| one * 10);
        Ok(Self { whole, fraction: digits(fraction)?, one })
    }

    /// Returns the number times `scale` if the product is whole and at most `most`.
    pub(super) fn times(self, scale: u64, most: u64) -> Result<u64, Fault> {
        let (scale, one) = (u128::from(scale), u128::from(self.one));
        let below = u128::from(self.fraction) * scale;
        if !below.is_multiple_of(one) {
            return Err(Fault::TooFine);
        }
        // The product of two 64-bit numbers and less than 2⁶⁴ fit 128 bits.
        let whole = u128::from(self.whole) * scale + below / one;
        u64::try_from(whole).ok().filter(|&whole| whole <= most).ok_or(Fault::TooLarge)
    }

    /// Returns `of` divided by the number, rounded down; `None` if the number is zero.
    pub(super) fn divide(self, of: u64) -> Option<u128> {
        let number = u128::from(self.whole) * u128::from(self.one) + u128::from(self.fraction);
        (u128::from(of) * u128::from(self.one)).checked_div(number)
    }
}

fn digits(digits: &str) -> Result<u64, Fault> {
    if digits.is_empty() {
        return Err(Fault::NotANumber);
    }
    digits.chars().filter(|&c| c != '_').try_fold(0u64, |value, c| {
        let digit = c.to_digit(10).ok_or(Fault::NotANumber)?;
        let value = value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit)));
        value.ok_or(Fault::TooLarge)
    })
}
