//! Turns codewords back into octets.

use super::matcher::{Found, Matcher};
use super::{ESCAPE_STEP, FIRST_BITS, Sizes, command};

/// Input that no encoder sends: the ends no longer have the same dictionary, and all further input
/// is meaningless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A command that does not exist.
    #[error("command {0} after the escape character is none of V.42bis: end the connection")]
    Command(u8),
    /// A string that does not exist.
    #[error("codeword {0} stands for no string: end the connection")]
    Codeword(u16),
    /// Codewords longer than the dictionary needs.
    #[error("codewords of more than {0} bits are asked for: end the connection")]
    StepUp(u32),
}

/// One direction of a connection, at its receiver.
#[derive(Clone, Debug)]
pub struct Decoder {
    sizes: Sizes,
    matcher: Matcher,
    transparent: bool,
    escape: u8,
    /// True if the previous octet was the escape character.
    escaped: bool,
    width: u32,
    bits: u32,
    count: u32,
}

impl Decoder {
    /// Creates a decoder in transparent mode.
    pub fn new(sizes: Sizes) -> Self {
        Self {
            sizes,
            matcher: Matcher::new(sizes),
            transparent: true,
            escape: 0,
            escaped: false,
            width: FIRST_BITS,
            bits: 0,
            count: 0,
        }
    }

    /// Takes a received octet and passes the data that it completes to `out`: at most one string.
    ///
    /// # Errors
    /// Fails on input that no encoder sends. The decoder must not be used after that.
    pub fn put(&mut self, octet: u8, mut out: impl FnMut(&[u8])) -> Result<(), DecodeError> {
        if self.transparent {
            return self.transparent_octet(octet, &mut out);
        }
        self.bits |= u32::from(octet) << self.count;
        self.count += 8;
        // A codeword is longer than an octet, so there is at most one; after a command that ends
        // the octet there is none.
        if self.count >= self.width {
            let codeword = (self.bits & ((1 << self.width) - 1)) as u16;
            self.bits >>= self.width;
            self.count -= self.width;
            return self.codeword(codeword, &mut out);
        }
        Ok(())
    }

    fn transparent_octet(
        &mut self,
        octet: u8,
        out: &mut impl FnMut(&[u8]),
    ) -> Result<(), DecodeError> {
        if !std::mem::take(&mut self.escaped) {
            if octet == self.escape {
                self.escaped = true;
            } else {
                self.data(octet, out);
            }
            return Ok(());
        }
        match octet {
            command::ECM => {
                self.matcher.end();
                self.transparent = false;
                (self.bits, self.count) = (0, 0);
            }
            command::EID => {
                let escape = self.escape;
                self.escape = escape.wrapping_add(ESCAPE_STEP);
                self.data(escape, out);
            }
            command::RESET => *self = Self::new(self.sizes),
            other => return Err(DecodeError::Command(other)),
        }
        Ok(())
    }

    fn data(&mut self, octet: u8, out: &mut impl FnMut(&[u8])) {
        let _ = self.matcher.octet(octet);
        out(&[octet]);
    }

    fn codeword(&mut self, codeword: u16, out: &mut impl FnMut(&[u8])) -> Result<(), DecodeError> {
        match codeword {
            command::ETM => {
                self.transparent = true;
                (self.bits, self.count) = (0, 0);
            }
            command::FLUSH => (self.bits, self.count) = (0, 0),
            command::STEPUP => {
                if self.width >= self.sizes.most_bits() {
                    return Err(DecodeError::StepUp(self.width));
                }
                self.width += 1;
            }
            node => {
                if !self.matcher.dictionary.has(node) {
                    return Err(DecodeError::Codeword(node));
                }
                let mut room = [0; u8::MAX as usize];
                let string = self.matcher.dictionary.string(node, &mut room);
                let found = Found { node, length: string.len() as u8 };
                if !self.matcher.codeword(found, string[0]) {
                    return Err(DecodeError::Codeword(node));
                }
                for &octet in string {
                    if octet == self.escape {
                        self.escape = self.escape.wrapping_add(ESCAPE_STEP);
                    }
                }
                out(string);
            }
        }
        Ok(())
    }
}
