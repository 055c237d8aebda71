//! Turns bits into frames and back: flags, bit stuffing, aborts, and the 16-bit check sequence
//! (V.42 §8.1, after ISO/IEC 13239). Bytes travel with their lowest bit first.

#[cfg(test)]
mod tests;

use crc::{CRC_16_IBM_SDLC, Crc};

/// The longest frame: address, two bytes of control, [`super::MAX_N401`] bytes of information.
pub const MAX_FRAME: usize = 3 + super::MAX_N401;

/// The shortest frame: address and control.
pub const MIN_FRAME: usize = 2;
const FCS: Crc<u16> = Crc::<u16>::new(&CRC_16_IBM_SDLC);
const FCS_BYTES: usize = 2;
const FLAG: u8 = 0x7e;

/// A frame without its check sequence.
#[derive(Clone, Copy)]
pub struct Frame {
    bytes: [u8; MAX_FRAME],
    len: usize,
}

impl Frame {
    /// Creates a frame of `head` and then `information`, cut off at [`MAX_FRAME`].
    pub fn new(head: &[u8], information: &[u8]) -> Self {
        let mut frame = Self { bytes: [0; MAX_FRAME], len: 0 };
        for (slot, &byte) in frame.bytes.iter_mut().zip(head.iter().chain(information)) {
            *slot = byte;
            frame.len += 1;
        }
        frame
    }

    /// Returns address, control and information.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl core::fmt::Debug for Frame {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:02x?}", self.bytes())
    }
}

/// Turns frames into bits. Flags fill the time between frames; one is enough between two.
///
/// A flag, or a byte with its stuffed zeros, is built at once and waits in a register, so most bits
/// of a line are no more than a shift.
#[derive(Clone, Debug)]
pub struct Framer {
    bytes: [u8; MAX_FRAME + FCS_BYTES],
    len: usize,
    /// Bytes of the frame that have been put into `line`.
    sent: usize,
    /// Consecutive ones before the next byte: at most four, because a zero is stuffed after a
    /// fifth.
    ones: u8,
    /// Bits for the line, the next one lowest, and their number.
    line: u16,
    waiting: u8,
}

impl Default for Framer {
    fn default() -> Self {
        let (line, waiting) = (FLAG.into(), 8);
        Self { bytes: [0; MAX_FRAME + FCS_BYTES], len: 0, sent: 0, ones: 0, line, waiting }
    }
}

impl Framer {
    /// Returns the next bit for the line. Calls `next` for a frame at the end of each flag.
    pub fn next_bit(&mut self, next: impl FnOnce() -> Option<Frame>) -> bool {
        if self.waiting == 0 {
            self.refill(next);
        }
        self.shift()
    }

    /// Returns the next bit if it belongs to a flag or a byte that has begun.
    #[inline]
    pub fn bit_under_way(&mut self) -> Option<bool> {
        (self.waiting > 0).then(|| self.shift())
    }

    #[inline]
    fn shift(&mut self) -> bool {
        let bit = self.line & 1 == 1;
        self.line >>= 1;
        self.waiting -= 1;
        bit
    }

    fn refill(&mut self, next: impl FnOnce() -> Option<Frame>) {
        // The flag after a frame goes first; only then is another frame requested.
        let ended = self.len > 0 && self.sent == self.len;
        if ended {
            (self.len, self.sent) = (0, 0);
        } else if self.len == 0
            && let Some(frame) = next()
        {
            self.load(&frame);
        }
        match self.bytes[..self.len].get(self.sent) {
            Some(&byte) => {
                self.sent += 1;
                self.stuff(byte);
            }
            None => (self.line, self.waiting) = (FLAG.into(), 8),
        }
    }

    /// Puts a byte into `line`, with a zero after each five ones.
    fn stuff(&mut self, byte: u8) {
        (self.line, self.waiting) = (0, 0);
        for place in 0..8 {
            let bit = byte >> place & 1;
            self.line |= u16::from(bit) << self.waiting;
            self.waiting += 1;
            self.ones = if bit == 1 { self.ones + 1 } else { 0 };
            if self.ones == 5 {
                self.waiting += 1;
                self.ones = 0;
            }
        }
    }

    fn load(&mut self, frame: &Frame) {
        let bytes = frame.bytes();
        self.bytes[..bytes.len()].copy_from_slice(bytes);
        let fcs = FCS.checksum(bytes).to_le_bytes();
        self.bytes[bytes.len()..bytes.len() + FCS_BYTES].copy_from_slice(&fcs);
        (self.len, self.sent, self.ones) = (bytes.len() + FCS_BYTES, 0, 0);
    }
}

/// The counts of received frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeframerStats {
    /// Frames with a correct check sequence.
    pub good: u64,
    /// Frames with a wrong check sequence, or not a whole number of bytes.
    pub bad: u64,
    /// Frames that were longer than [`MAX_FRAME`].
    pub too_long: u64,
    /// Frames ended by seven ones.
    pub aborted: u64,
}

/// Turns bits into frames.
#[derive(Clone, Debug)]
pub struct Deframer {
    bytes: [u8; MAX_FRAME + FCS_BYTES],
    len: usize,
    /// The last eight bits of the line, the latest as the highest bit.
    last: u8,
    /// The current byte; the latest bit is the highest.
    byte: u8,
    /// Bits of the current byte so far. At a closing flag these are a zero and six ones of the
    /// flag, which count as the frame's until the flag is complete.
    bits: u8,
    inside: bool,
    stats: DeframerStats,
}

impl Default for Deframer {
    fn default() -> Self {
        Self {
            bytes: [0; MAX_FRAME + FCS_BYTES],
            len: 0,
            last: 0,
            byte: 0,
            bits: 0,
            inside: false,
            stats: DeframerStats::default(),
        }
    }
}

impl Deframer {
    /// Takes a bit of the line. Returns the frame that it completes, without its check sequence.
    pub fn put_bit(&mut self, bit: bool) -> Option<&[u8]> {
        if self.put_inside(bit) { None } else { self.put_other(bit) }
    }

    /// Takes a bit if it lies inside a byte and belongs to neither a flag, a stuffed zero nor an
    /// abort: then it is only a shift. Otherwise changes nothing, and the bit has to go to
    /// [`Self::put_other`]. Returns true if it took the bit.
    #[inline]
    pub(super) fn put_inside(&mut self, bit: bool) -> bool {
        let last = shifted(self.last, bit);
        // Excludes a zero after five ones or more, and the seventh one or more.
        let is_inside = self.bits < 7 && !matches!(last, 0x7c..=0x7f | 0xfe..);
        if is_inside {
            self.last = last;
            self.byte = shifted(self.byte, bit);
            self.bits += 1;
        }
        is_inside
    }

    /// Takes a bit that is not inside a byte. Returns the frame that it completes.
    pub(super) fn put_other(&mut self, bit: bool) -> Option<&[u8]> {
        self.last = shifted(self.last, bit);
        match self.last {
            FLAG => return self.flag(),
            // A zero after exactly five ones: stuffed.
            0x7c | 0x7d => {}
            // The seventh one, or a later one: an abort.
            0xfe.. => {
                if std::mem::take(&mut self.inside) {
                    self.stats.aborted += 1;
                }
            }
            _ => {
                self.byte = shifted(self.byte, bit);
                self.bits += 1;
                if self.bits == 8 {
                    self.store();
                }
            }
        }
        None
    }

    /// Returns the counts of received frames.
    pub fn stats(&self) -> DeframerStats {
        self.stats
    }

    fn store(&mut self) {
        self.bits = 0;
        if !self.inside {
            return;
        }
        match self.bytes.get_mut(self.len) {
            Some(slot) => {
                *slot = self.byte;
                self.len += 1;
            }
            None => {
                self.inside = false;
                self.stats.too_long += 1;
            }
        }
    }

    fn flag(&mut self) -> Option<&[u8]> {
        let inside = std::mem::replace(&mut self.inside, true);
        let (len, bits) = (std::mem::take(&mut self.len), std::mem::take(&mut self.bits));
        // Two adjacent flags have up to seven bits, those of the second flag, between them.
        if !inside || (len == 0 && bits <= 7) {
            return None;
        }
        let right = bits == 7 && len >= MIN_FRAME + FCS_BYTES && {
            let (frame, fcs) = self.bytes[..len].split_at(len - FCS_BYTES);
            FCS.checksum(frame).to_le_bytes() == *fcs
        };
        if !right {
            self.stats.bad += 1;
            return None;
        }
        self.stats.good += 1;
        Some(&self.bytes[..len - FCS_BYTES])
    }
}

/// Returns `bits` with `bit` shifted in as the highest.
fn shifted(bits: u8, bit: bool) -> u8 {
    bits >> 1 | u8::from(bit) << 7
}
