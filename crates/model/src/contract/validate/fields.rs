//! Reads single values, and words the errors of wrong ones.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use core::ops::Range;

use toml::Spanned;

use super::super::raw::RawQuantity;
use crate::channel::BitRate;
pub(super) use crate::text_file::{Checked, choice, printable, problem};
use crate::units::{self, Quantity, UnitError};
use crate::{Duration, Service};

/// The longest name, in characters.
const MAX_NAME: usize = 64;

/// A quantity and its place in the file.
pub(super) type Given = Spanned<RawQuantity>;

pub(super) fn name(raw: Spanned<String>, names: &mut BTreeSet<String>) -> Checked<String> {
    let span = raw.span();
    let name = raw.into_inner();
    if name.is_empty() || name.chars().count() > MAX_NAME {
        return problem(span, format!("a name has from 1 to {MAX_NAME} characters"));
    }
    // Names are printed to terminals, so they must not contain control characters.
    if name.chars().any(char::is_control) {
        return problem(span, "a name has no control characters");
    }
    if !names.insert(name.clone()) {
        return problem(span, format!("the name \"{name}\" is taken; each entry needs its own"));
    }
    Ok(name)
}

pub(super) fn duration(key: &str, raw: &Given) -> Checked<Duration> {
    quantity(key, raw, Quantity::Time, units::parse_nanos).map(Duration::from_nanos)
}

pub(super) fn service(key: &str, raw: &Given) -> Checked<Service> {
    quantity(key, raw, Quantity::Time, units::parse_nanos).map(Service::from_nanos)
}

pub(super) fn picos_per_byte(key: &str, raw: &Given) -> Checked<u64> {
    quantity(key, raw, Quantity::TimePerByte, units::parse_picos_per_byte)
}

pub(super) fn bytes(key: &str, raw: &Given) -> Checked<u64> {
    quantity(key, raw, Quantity::Size, units::parse_bytes)
}

/// Reads the size of one message, frame or packet.
pub(super) fn message_bytes(key: &str, raw: &Given) -> Checked<u32> {
    u32::try_from(bytes(key, raw)?).or_else(|_| {
        problem(raw.span(), format!("{key} is too large; it may be at most {}B", u32::MAX))
    })
}

pub(super) fn bit_rate(key: &str, raw: &Given) -> Checked<BitRate> {
    let bits = quantity(key, raw, Quantity::Rate, units::parse_bits_per_second)?;
    BitRate::new(bits).or_else(|error| problem(raw.span(), error.to_string()))
}

/// Reads a frequency as the time between two events.
pub(super) fn period_of(key: &str, raw: &Given) -> Checked<Duration> {
    quantity(key, raw, Quantity::Frequency, units::parse_period).map(Duration::from_nanos)
}

pub(super) fn parts_per_million(key: &str, raw: &Given) -> Checked<u32> {
    quantity(key, raw, Quantity::Part, units::parse_ppm)
}

pub(super) fn count(key: &str, raw: &Spanned<i64>) -> Checked<u32> {
    u32::try_from(*raw.get_ref()).or_else(|_| {
        problem(
            raw.span(),
            format!("{key} is {}; it must be from 1 to {}", raw.get_ref(), u32::MAX),
        )
    })
}

fn quantity<T>(
    key: &str,
    raw: &Given,
    quantity: Quantity,
    parse: fn(&str) -> Result<T, UnitError>,
) -> Checked<T> {
    match raw.get_ref() {
        RawQuantity::Text(text) => parse(text)
            .or_else(|why| problem(raw.span(), format!("{key} \"{}\" {why}", printable(text)))),
        RawQuantity::Bare(number) => problem(
            raw.span(),
            format!(
                "{key} {number} has no unit; write it in quotes with {}: \"{number}{}\"",
                quantity.units(),
                quantity.likely_unit()
            ),
        ),
    }
}

/// Reads `of` with `read`, if it is present.
pub(super) fn optional<R, T>(
    key: &str,
    of: &Option<Spanned<R>>,
    read: fn(&str, &Spanned<R>) -> Checked<T>,
) -> Checked<Option<T>> {
    of.as_ref().map(|raw| read(key, raw)).transpose()
}

pub(super) fn span_or<T>(field: &Option<Spanned<T>>, otherwise: Range<usize>) -> Range<usize> {
    field.as_ref().map_or(otherwise, Spanned::span)
}
