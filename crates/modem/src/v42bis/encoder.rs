//! Turns octets into codewords, or passes them on unchanged.

use super::matcher::{Found, Matcher};
use super::{ESCAPE_STEP, FIRST_BITS, Sizes, command};

/// Bits of data between two checks whether codewords save bits (§7.8 leaves this to the encoder).
const LOOK: u32 = 256 * 8;

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
