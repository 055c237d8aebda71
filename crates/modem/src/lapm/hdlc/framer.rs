//! Turns frames into bits.

use super::{FCS, FCS_BYTES, FLAG, Frame, MAX_FRAME};

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
