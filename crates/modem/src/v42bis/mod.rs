//! Data compression after ITU-T V.42bis: strings that occurred before are sent as codewords.
//!
//! - [`dictionary`]: the strings, as a forest that reuses its leaves in turn.
//! - [`matcher`]: finds the next string and adds one, in the same way at both ends.
//! - [`encoder`], [`decoder`]: octets to codewords and back, and unchanged octets (transparent
//!   mode) if codewords would be longer.
//!
//! The bytes between the two must arrive once and in order, which [`crate::lapm`] ensures. A
//! decoder trusts no input: anything that no encoder can have sent is an error, in bounded time and
//! memory.
//!
//! SpanDSP has V.42bis too, and it is not used: version 0.0.6 indexes its dictionary of 4,096
//! entries with codewords of as many bits as the far end requests, and puts strings of any length
//! into 250 bytes, so a far end can write to memory.

pub mod decoder;
pub mod dictionary;
pub mod encoder;
pub mod matcher;

pub use decoder::{DecodeError, Decoder};
pub use encoder::Encoder;

/// Codewords that are commands in compressed mode (Table 2), and octets after the escape character
/// in transparent mode (Table 3).
mod command {
    /// Enter transparent mode.
    pub(super) const ETM: u16 = 0;
    /// The rest of this octet is padding.
    pub(super) const FLUSH: u16 = 1;
    /// Codewords are one bit longer from here on.
    pub(super) const STEPUP: u16 = 2;
    /// Enter compressed mode.
    pub(super) const ECM: u8 = 0;
    /// The escape character itself.
    pub(super) const EID: u8 = 1;
    /// Reset the dictionaries.
    pub(super) const RESET: u8 = 2;
}

/// The amount by which the escape character advances each time that it occurs (§9.2).
const ESCAPE_STEP: u8 = 51;

/// Bits of the first codewords (N3 + 1).
const FIRST_BITS: u32 = 9;

/// The sizes that two ends use; both must have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// N2 (P1): the number of codewords, including the three commands and 256 octets.
    codewords: u16,
    /// N7 (P2): the largest number of octets in a string.
    string: u8,
}

impl Sizes {
    /// The largest number of codewords that this end supports.
    pub const MOST_CODEWORDS: u16 = 4_096;

    /// Creates sizes of `codewords`, at least 512, and strings of up to `string` octets, 6 to 250
    /// (§5.1, Table 1). Returns `None` outside of these ranges.
    pub fn new(codewords: u16, string: u8) -> Option<Self> {
        let fits = (512..=Self::MOST_CODEWORDS).contains(&codewords) && (6..=250).contains(&string);
        fits.then_some(Self { codewords, string })
    }

    /// Returns N2.
    pub fn codewords(self) -> u16 {
        self.codewords
    }

    /// Returns N7.
    pub fn string(self) -> u8 {
        self.string
    }

    /// Returns the smaller of both sizes.
    pub fn agreed_with(self, far: Self) -> Self {
        Self { codewords: self.codewords.min(far.codewords), string: self.string.min(far.string) }
    }

    /// Returns the bits of the longest codeword (N1).
    fn most_bits(self) -> u32 {
        u16::BITS - (self.codewords - 1).leading_zeros()
    }
}

impl Default for Sizes {
    /// Returns the sizes that modems commonly offer.
    fn default() -> Self {
        Self { codewords: 2_048, string: 32 }
    }
}
