//! Turns octets into codewords and back. The encoder passes octets on unchanged (transparent mode)
//! if codewords would be longer.

use super::dictionary::{FIRST_BITS, Found, Matcher, Sizes};

/// The amount by which the escape character advances each time that it occurs (§9.2).
const ESCAPE_STEP: u8 = 51;

/// Bits of data between two checks whether codewords save bits (§7.8 leaves this to the encoder).
const LOOK: u32 = 256 * 8;

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

/// One direction of a connection, at its sender.
#[derive(Clone, Debug)]
pub struct Encoder {
    matcher: Matcher,
    transparent: bool,
    escape: u8,
    /// C2: bits of a codeword.
    width: u32,
    /// Bits of codewords that do not fill an octet yet.
    bits: u32,
    count: u32,
    /// Bits of data since the last check, and their size as codewords.
    came: u32,
    coded: u32,
}

impl Encoder {
    /// Creates an encoder in transparent mode.
    pub fn new(sizes: Sizes) -> Self {
        Self {
            matcher: Matcher::new(sizes),
            transparent: true,
            escape: 0,
            width: FIRST_BITS,
            bits: 0,
            count: 0,
            came: 0,
            coded: 0,
        }
    }

    /// Takes an octet of data and passes the resulting octets to `out`: at most a few dozen.
    pub fn put(&mut self, octet: u8, mut out: impl FnMut(u8)) {
        if self.transparent {
            out(octet);
        }
        let is_escape = octet == self.escape;
        let ended = self.matcher.octet(octet);
        if let Some(found) = ended {
            self.string(found, &mut out);
        }
        if is_escape {
            if self.transparent {
                out(command::EID);
            }
            self.escape = self.escape.wrapping_add(ESCAPE_STEP);
        }
        if self.came >= LOOK {
            self.choose(&mut out);
        }
    }

    /// Sends the data held back; call it when no octet follows for now.
    pub fn flush(&mut self, mut out: impl FnMut(u8)) {
        // In transparent mode no data is held back, and the string continues.
        if !self.transparent && (self.matcher.has_begun() || self.count > 0) {
            if let Some(found) = self.matcher.end() {
                self.string(found, &mut out);
            }
            self.codeword(command::FLUSH, &mut out);
            self.align(&mut out);
        }
    }

    /// Returns true if [`Encoder::flush`] has something to send.
    pub fn holds_back(&self) -> bool {
        !self.transparent && (self.matcher.has_begun() || self.count > 0)
    }

    /// Returns true in compressed mode.
    pub fn is_compressing(&self) -> bool {
        !self.transparent
    }

    fn string(&mut self, found: Found, out: &mut impl FnMut(u8)) {
        self.came += 8 * u32::from(found.length);
        self.coded += self.width.max(u16::BITS - found.node.leading_zeros());
        if self.transparent {
            return;
        }
        // §7.4: codewords grow only when one needs it.
        while found.node >> self.width != 0 {
            self.codeword(command::STEPUP, out);
            self.width += 1;
        }
        self.codeword(found.node, out);
    }

    /// Changes to the mode that would have made the last stretch of data shorter.
    fn choose(&mut self, out: &mut impl FnMut(u8)) {
        let (came, coded) = (std::mem::take(&mut self.came), std::mem::take(&mut self.coded));
        if self.transparent && coded < came - came / 16 {
            self.matcher.end();
            out(self.escape);
            out(command::ECM);
            self.transparent = false;
        } else if !self.transparent && coded > came {
            if let Some(found) = self.matcher.end() {
                self.string(found, out);
            }
            self.codeword(command::ETM, out);
            self.align(out);
            self.transparent = true;
        }
    }

    fn codeword(&mut self, codeword: u16, out: &mut impl FnMut(u8)) {
        self.bits |= u32::from(codeword) << self.count;
        self.count += self.width;
        while self.count >= 8 {
            out(self.bits as u8);
            self.bits >>= 8;
            self.count -= 8;
        }
    }

    /// Fills the last octet with zeros.
    fn align(&mut self, out: &mut impl FnMut(u8)) {
        if self.count > 0 {
            out(self.bits as u8);
        }
        (self.bits, self.count) = (0, 0);
    }
}

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
