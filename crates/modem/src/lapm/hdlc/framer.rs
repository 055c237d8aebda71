//! Frames to bits.

use super::{FCS, FCS_BYTES, FLAG, Frame, MAX_FRAME};

/// Frames to bits. Flags fill the time between frames; one is enough between two.
///
/// A flag, or a byte with the zeros that it needs, is made at once and waits in a register: most
/// bits of a line are no more than a shift.
#[derive(Clone, Debug)]
pub struct Framer {
    bytes: [u8; MAX_FRAME + FCS_BYTES],
    len: usize,
    /// Bytes of the frame that have been put into `line`.
    sent: usize,
    /// Ones in a row before the next byte: at most four, for a fifth has its zero behind it.
    ones: u8,
    /// Bits for the line, the next of them lowest, and how many.
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
    /// The next bit for the line. At the end of each flag `next` is asked for a frame.
    pub fn next_bit(&mut self, next: impl FnOnce() -> Option<Frame>) -> bool {
        if self.waiting == 0 {
            self.refill(next);
        }
        self.shift()
    }

    /// The next bit, if it is of a flag or a byte that has begun.
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
        // The flag behind a frame, before another is asked for.
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

    /// Puts a byte into `line`, with a zero behind each five ones.
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
