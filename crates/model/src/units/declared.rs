//! Quantities that parse themselves: from text, and from a value in a file.
//!
//! A raw structure of a file has them as its fields, so each kind of file reads a quantity in the
//! same way, and a wrong one is refused with its place. [`text_file`](crate::text_file) adds the
//! place and the key: `wcet "40" has no unit; …`.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::marker::PhantomData;
use core::str::FromStr;

use serde::de::{self, Visitor};

use super::{
    Fault, Quantity, UnitError, parse_bytes, parse_nanos, parse_period, parse_picos_per_byte,
    parse_ppm, parse_share,
};
use crate::Service;
use crate::text_file::printable;
use crate::time::Duration;

/// An amount of data, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    /// Formats it in the largest unit that makes it a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes.is_multiple_of(1 << 20) => write!(f, "{} MiB", bytes >> 20),
            bytes if bytes.is_multiple_of(1 << 10) => write!(f, "{} KiB", bytes >> 10),
            bytes => write!(f, "{bytes} B"),
        }
    }
}

/// The size of one message, frame or packet, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageBytes(pub u32);

/// The time of a byte on a link, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PicosPerByte(pub u64);

/// A frequency, as the time between two events (see [`parse_period`] for its rounding).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frequency(pub Duration);

/// A part of a whole, in parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part(pub u32);

/// A share of one CPU or of several, in parts per million of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(pub u64);

/// The visitor of a value that should be a quantity.
pub(crate) struct InQuotes<T>(PhantomData<T>);

impl<T> InQuotes<T> {
    pub(crate) const VISITOR: Self = Self(PhantomData);
}

/// A type that is declared by a text with a unit.
pub(crate) trait Declared: FromStr<Err: fmt::Display> {
    /// Words the refusal of `text`.
    fn refusal(text: &str, why: Self::Err) -> String {
        format!("\"{}\" {why}", printable(text))
    }

    /// Words the refusal of a number without quotes.
    fn bare(number: impl fmt::Display) -> String;
}

impl<T: Declared> Visitor<'_> for InQuotes<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number with its unit in quotes, such as \"40ms\" or \"4KiB\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(|why| E::custom(T::refusal(text, why)))
    }

    // Bare numbers are taken here, so that the refusal can name the unit.
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        Err(E::custom(T::bare(number)))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        Err(E::custom(T::bare(number)))
    }
}

/// Words the refusal of a number that lacks its unit.
pub(crate) fn without_unit(quantity: Quantity, number: impl fmt::Display) -> String {
    let (units, likely) = (quantity.units(), quantity.likely_unit());
    format!("{number} has no unit; write it in quotes with {units}: \"{number}{likely}\"")
}

/// Makes a type a quantity: it is parsed from text, and from a value in a file.
macro_rules! declared {
    ($type:ty, $quantity:ident, |$text:ident| $parse:expr) => {
        impl core::str::FromStr for $type {
            type Err = $crate::units::UnitError;

            fn from_str($text: &str) -> Result<Self, $crate::units::UnitError> {
                $parse
            }
        }

        impl $crate::units::Declared for $type {
            fn bare(number: impl core::fmt::Display) -> alloc::string::String {
                $crate::units::without_unit($crate::units::Quantity::$quantity, number)
            }
        }

        $crate::units::declared!($type);
    };
    ($type:ty) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any($crate::units::InQuotes::VISITOR)
            }
        }
    };
}
pub(crate) use declared;

declared!(PicosPerByte, TimePerByte, |text| parse_picos_per_byte(text).map(Self));
declared!(Bytes, Size, |text| parse_bytes(text).map(Self));
declared!(MessageBytes, Size, |text| {
    let too_large = UnitError { quantity: Quantity::Message, fault: Fault::TooLarge };
    parse_bytes(text).and_then(|bytes| u32::try_from(bytes).map(Self).map_err(|_| too_large))
});
declared!(Frequency, Frequency, |text| parse_period(text).map(Duration::from_nanos).map(Self));
declared!(Part, Part, |text| parse_ppm(text).map(Self));
declared!(Share, Share, |text| parse_share(text).map(Self));

declared!(Duration, Time, |text| parse_nanos(text).map(Self::from_nanos));
declared!(Service, Time, |text| parse_nanos(text).map(Self::from_nanos));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::BitRate;
    use crate::host::Percentile;
    use crate::time::Service;

    #[test]
    fn a_type_takes_its_own_quantity_and_no_other() {
        assert_eq!("40ms".parse(), Ok(Duration::from_millis(40)));
        assert_eq!("4KiB".parse(), Ok(Bytes(4_096)));
        assert_eq!("25/s".parse(), Ok(Frequency(Duration::from_millis(40))));
        assert_eq!("150%".parse(), Ok(Share(1_500_000)));
        let refused = |quantity, fault| UnitError { quantity, fault };
        assert_eq!(
            "5GiB".parse::<MessageBytes>(),
            Err(refused(Quantity::Message, Fault::TooLarge))
        );
        assert_eq!("150%".parse::<Part>(), Err(refused(Quantity::Part, Fault::TooLarge)));
        assert_eq!("49%".parse::<Percentile>(), Err(refused(Quantity::Percentile, Fault::TooLow)));
        assert_eq!("0bit/s".parse::<BitRate>(), Err(refused(Quantity::Rate, Fault::Zero)));
        assert_eq!("4KiB".parse::<Service>(), Err(refused(Quantity::Time, Fault::UnknownUnit)));
    }
}
