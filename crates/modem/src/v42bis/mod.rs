//! Data compression after ITU-T V.42bis: strings that occurred before are sent as codewords.
//!
//! - [`dictionary`]: the strings, as a forest that reuses its leaves in turn, and the matcher that
//!   finds the next string and adds one, in the same way at both ends.
//! - [`codec`]: octets to codewords and back, and unchanged octets (transparent mode) if codewords
//!   would be longer.
//!
//! The bytes between the two must arrive once and in order, which [`crate::lapm`] ensures. A
//! decoder trusts no input: anything that no encoder can have sent is an error, in bounded time and
//! memory.
//!
//! SpanDSP has V.42bis too, and it is not used: version 0.0.6 indexes its dictionary of 4,096
//! entries with codewords of as many bits as the far end requests, and puts strings of any length
//! into 250 bytes, so a far end can write to memory.

pub mod codec;
pub mod dictionary;

pub use codec::{DecodeError, Decoder, Encoder};
pub use dictionary::Sizes;
