//! Quantities with their unit: `"40ms"`, `"4KiB"`, `"160mbit/s"`, `"29.97/s"`, `"0.5%"`.
//!
//! Parsing is exact integer arithmetic: a value that is not a whole number of nanoseconds, bytes,
//! bits a second or parts per million is refused rather than rounded. The one exception is
//! [`parse_period`], where the reciprocal is hardly ever whole; it documents its rounding.

mod data;
mod decimal;
mod declared;
mod share;
mod time;

use core::fmt;

pub use data::{parse_bits_per_second, parse_bytes};
pub use declared::{Bytes, Frequency, MessageBytes, Part, PicosPerByte, Share};
pub(crate) use declared::{Declared, InQuotes, declared, without_unit};
pub use share::{parse_period, parse_ppm, parse_share, percent};
pub use time::{MAX_NANOS, MAX_PICOS_PER_BYTE, parse_nanos, parse_picos_per_byte, write_nanos};

pub(crate) use share::share_ppm;

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
    fn named<T>(self, parsed: Result<T, Fault>) -> Result<T, UnitError> {
        parsed.or_else(|fault| self.fault(fault))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn an_error_reads_on_from_the_text() {
        for (error, words) in [
            (
                parse_nanos("").map(|_| ()),
                "is empty; write a number with its unit, such as \"40ms\"",
            ),
            (parse_bytes("4").map(|_| ()), "has no unit; write B, kB, MB or GB"),
            (parse_bits_per_second("4mph").map(|_| ()), "has an unknown unit; use bit/s, kbit/s"),
            (parse_bytes("4KB").map(|_| ()), "write kB for 1000 bytes or KiB for 1024"),
            (parse_ppm("x%").map(|_| ()), "write it like \"0.5%\""),
            (parse_picos_per_byte("0.0001ns").map(|_| ()), "is finer than one picosecond"),
            (parse_nanos("86401s").map(|_| ()), "is longer than a day, the most a contract may"),
            (parse_period("0/s").map(|_| ()), "is zero; it must be more"),
        ] {
            let message = error.expect_err("wrong").to_string();
            assert!(message.contains(words), "{message}\n wanted {words}");
        }
    }
}
