//! Data compression after ITU-T V.42bis: strings that came before travel as codewords.
//!
//! - [`dictionary`]: the strings, as a forest that forgets its leaves in turn.
//! - [`matcher`]: which string comes next, and which is added; the same at both ends.
//! - [`encoder`], [`decoder`]: octets to codewords and back, and octets as they are (transparent
//!   mode) where codewords would be longer.
//!
//! The bytes between the two must arrive once and in order: [`crate::lapm`] sees to it. A decoder
//! believes nothing: what no encoder can have sent is an error, in bounded time and memory.
//!
//! SpanDSP has V.42bis too, and it is not used: version 0.0.6 indexes its dictionary of 4,096 entries
//! with codewords of as many bits as the far end asks for, and puts strings of any length into 250
//! bytes, so that a far end can write to memory.

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
    /// Codewords have one bit more from here on.
    pub(super) const STEPUP: u16 = 2;
    /// Enter compressed mode.
    pub(super) const ECM: u8 = 0;
    /// The escape character itself.
    pub(super) const EID: u8 = 1;
    /// Begin anew.
    pub(super) const RESET: u8 = 2;
}

/// What the escape character is advanced by each time that it comes (§9.2).
const ESCAPE_STEP: u8 = 51;

/// Bits of a codeword in the beginning (N3 + 1).
const FIRST_BITS: u32 = 9;

/// The sizes that two ends work with; both must have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// N2 (P1): codewords, the three commands and 256 octets included.
    codewords: u16,
    /// N7 (P2): octets in a string.
    string: u8,
}

impl Sizes {
    /// The most codewords that this end keeps.
    pub const MOST_CODEWORDS: u16 = 4_096;

    /// So many codewords, 512 at least, and strings of so many octets, 6 to 250 (§5.1, Table 1);
    /// `None` beyond that.
    pub fn new(codewords: u16, string: u8) -> Option<Self> {
        let fits = (512..=Self::MOST_CODEWORDS).contains(&codewords) && (6..=250).contains(&string);
        fits.then_some(Self { codewords, string })
    }

    /// N2.
    pub fn codewords(self) -> u16 {
        self.codewords
    }

    /// N7.
    pub fn string(self) -> u8 {
        self.string
    }

    /// The smaller of both.
    pub fn agreed_with(self, far: Self) -> Self {
        Self { codewords: self.codewords.min(far.codewords), string: self.string.min(far.string) }
    }

    /// Bits of the longest codeword (N1).
    fn most_bits(self) -> u32 {
        u16::BITS - (self.codewords - 1).leading_zeros()
    }
}

impl Default for Sizes {
    /// What modems commonly offer.
    fn default() -> Self {
        Self { codewords: 2_048, string: 32 }
    }
}
