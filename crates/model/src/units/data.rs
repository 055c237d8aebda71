//! Amounts of data and data rates.

use super::quantity;

use super::quantity::Decimal;
use super::{Fault, Quantity, UnitError};

/// The most bytes that a contract may name, 1024 TiB. Sums over the most entries of a contract fit
/// 64 bits.
const MAX_BYTES: u64 = 1 << 50;

/// The largest data rate, 1 Tbit/s, equal to the limit of `channel::BitRate`.
const MAX_BITS: u64 = 1_000_000_000_000;

const SIZES: [(&str, u64); 7] = [
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// Parses an amount of data into bytes, exactly: `"4KiB"` is 4096, `"4kB"` is 4000.
///
/// `"4KB"` is refused, because it may mean 4000 or 4096, and so are other spellings of these
/// letters.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let parsed = quantity::split(text)
        .and_then(|(number, unit)| Decimal::parse(number)?.times(bytes_of(unit)?, MAX_BYTES));
    Quantity::Size.named(parsed)
}

/// Parses a data rate into bits a second, exactly. `bit/s` takes the prefixes `k`, `m` and `g` in
/// either case (a rate in thousandths of a bit makes no sense); bytes a second are as in
/// [`parse_bytes`]. `"4Mb/s"` is refused: it may mean bits or bytes.
pub fn parse_bits_per_second(text: &str) -> Result<u64, UnitError> {
    let parsed = quantity::split(text)
        .and_then(|(number, unit)| Decimal::parse(number)?.times(bits_of(unit)?, MAX_BITS));
    Quantity::Rate.named(parsed)
}

fn bytes_of(unit: &str) -> Result<u64, Fault> {
    if let Some(&(_, bytes)) = SIZES.iter().find(|(name, _)| *name == unit) {
        return Ok(bytes);
    }
    let almost = ["kB", "MB", "GB", "b"].iter().any(|name| name.eq_ignore_ascii_case(unit));
    Err(if almost { Fault::AmbiguousUnit } else { Fault::UnknownUnit })
}

fn bits_of(unit: &str) -> Result<u64, Fault> {
    let amount = unit.strip_suffix("/s").ok_or(Fault::UnknownUnit)?;
    let Some(prefix) = amount.strip_suffix("bit") else {
        return Ok(8 * bytes_of(amount)?);
    };
    match prefix {
        "" => Ok(1),
        "k" | "K" => Ok(1_000),
        "m" | "M" => Ok(1_000_000),
        "g" | "G" => Ok(1_000_000_000),
        _ => Err(Fault::UnknownUnit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault<T>(parsed: Result<T, UnitError>) -> Option<Fault> {
        parsed.err().map(|error| error.fault)
    }

    #[test]
    fn sizes_are_exact_and_powers_are_told_apart() {
        for (text, bytes) in [
            ("1B", 1),
            ("4kB", 4_000),
            ("4KiB", 4_096),
            ("1.5KiB", 1_536),
            ("0.125 MiB", 131_072),
            ("2MB", 2_000_000),
            ("1GiB", 1 << 30),
            ("1_048_576GiB", 1 << 50),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for (text, wanted) in [
            ("4KB", Fault::AmbiguousUnit),
            ("4mb", Fault::AmbiguousUnit),
            ("4b", Fault::AmbiguousUnit),
            ("4K", Fault::UnknownUnit),
            ("4kib", Fault::UnknownUnit),
            ("0.5B", Fault::TooFine),
            ("0.0001KiB", Fault::TooFine),
            ("1048577GiB", Fault::TooLarge),
            ("99999999999999999999B", Fault::TooLarge),
            ("4", Fault::MissingUnit),
            ("-4B", Fault::NotANumber),
        ] {
            assert_eq!(fault(parse_bytes(text)), Some(wanted), "{text}");
        }
    }

    #[test]
    fn rates_are_exact_and_bits_are_told_from_bytes() {
        for (text, bits) in [
            ("1bit/s", 1),
            ("64kbit/s", 64_000),
            ("12.5mbit/s", 12_500_000),
            ("12.5Mbit/s", 12_500_000),
            ("10 Gbit/s", 10_000_000_000),
            ("1000gbit/s", MAX_BITS),
            ("1B/s", 8),
            ("1kB/s", 8_000),
            ("1MiB/s", 8 << 20),
        ] {
            assert_eq!(parse_bits_per_second(text), Ok(bits), "{text}");
        }
        for (text, wanted) in [
            ("4Mb/s", Fault::AmbiguousUnit),
            ("4KB/s", Fault::AmbiguousUnit),
            ("4mbps", Fault::UnknownUnit),
            ("4mbit", Fault::UnknownUnit),
            ("4/s", Fault::UnknownUnit),
            ("0.5bit/s", Fault::TooFine),
            ("1001gbit/s", Fault::TooLarge),
        ] {
            assert_eq!(fault(parse_bits_per_second(text)), Some(wanted), "{text}");
        }
    }
}
