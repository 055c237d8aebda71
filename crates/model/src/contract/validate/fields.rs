//! Reads single values, and words the errors of wrong ones.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use core::ops::Range;

use toml::Spanned;

pub(super) use crate::text_file::{Checked, choice, printable, problem};
use crate::units::MessageBytes;

/// The longest name, in characters.
const MAX_NAME: usize = 64;

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

/// Returns the value of a key, if it is present.
pub(super) fn value<T: Copy>(given: &Option<Spanned<T>>) -> Option<T> {
    given.as_ref().map(|given| *given.get_ref())
}

/// Returns the size of messages of a key, if it is present, in bytes.
pub(super) fn bytes(given: &Option<Spanned<MessageBytes>>) -> Option<u32> {
    value(given).map(|MessageBytes(bytes)| bytes)
}

pub(super) fn count(key: &str, raw: &Spanned<i64>) -> Checked<u32> {
    u32::try_from(*raw.get_ref()).or_else(|_| {
        problem(
            raw.span(),
            format!("{key} is {}; it must be from 1 to {}", raw.get_ref(), u32::MAX),
        )
    })
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
