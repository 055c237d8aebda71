//! A decimal number and its unit, exactly as a text has them.

use super::Fault;

/// The most digits after the point. No quantity can hold finer values.
const MAX_FRACTION_DIGITS: usize = 18;

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
