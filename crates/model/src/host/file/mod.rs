//! The TOML form of a [`Calibration`]: parsed raw (`raw`), then validated (`validate`). `write`
//! writes it for people to read and for the parser to read back unchanged.

mod packets;
mod raw;
#[cfg(test)]
mod tests;
mod validate;
mod write;

use super::Calibration;
use crate::FileError;

/// The most entries of one kind in a file.
pub const MAX_ENTRIES: usize = 64;

/// The value of the key `format`. A change that older programs would misread gets another number.
const FORMAT: i64 = 1;

impl Calibration {
    /// Parses and validates the bytes of a host profile. `file` only appears in messages.
    ///
    /// The text that a [`Calibration`] displays parses back to the same calibration.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, FileError> {
        validate::parse(file, bytes)
    }
}
