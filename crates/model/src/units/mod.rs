//! Quantities with their unit: `"40ms"`, `"4KiB"`, `"160mbit/s"`, `"29.97/s"`, `"0.5%"`.
//!
//! Parsing is exact integer arithmetic: a value that is not a whole number of nanoseconds, bytes,
//! bits a second or parts per million is refused rather than rounded. The one exception is
//! [`parse_period`], where the reciprocal is hardly ever whole; it documents its rounding.

mod data;
mod declared;
mod quantity;
mod time;

pub use data::{parse_bits_per_second, parse_bytes};
pub use declared::{Bytes, Frequency, MessageBytes, Part, PicosPerByte, Share};
pub(crate) use declared::{Declared, InQuotes, declared, without_unit};
pub use quantity::{Fault, Quantity, UnitError};
pub use time::{
    MAX_NANOS, MAX_PICOS_PER_BYTE, parse_nanos, parse_period, parse_picos_per_byte, parse_ppm,
    parse_share, percent,
};

pub(crate) use time::share_ppm;

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
