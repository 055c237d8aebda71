//! Frames to bits.

use super::{FCS, FCS_BYTES, FLAG, Frame, MAX_FRAME};

/// Frames to bits. Flags fill the time between frames; one is enough between two.
#[derive(Clone, Debug)]
pub struct Framer {
    bytes: [u8; MAX_FRAME + FCS_BYTES],
    bits: usize,
    /// Bits of the frame already sent.
    sent: usize,
    /// Ones sent in a row.
    ones: u8,
    /// Bits of a flag still to be sent.
    flag: u8,
}

impl Default for Framer {
    fn default() -> Self {
        Self { bytes: [0; MAX_FRAME + FCS_BYTES], bits: 0, sent: 0, ones: 0, flag: 8 }
    }
}

impl Framer {
    /// The next bit for the line. At the end of each flag `next` is asked for a frame.
    pub fn next_bit(&mut self, next: impl FnOnce() -> Option<Frame>) -> bool {
        if self.flag == 0 && self.bits == 0 {
            match next() {
                Some(frame) => self.load(&frame),
                None => self.flag = 8,
            }
        }
        if self.flag > 0 {
            self.flag -= 1;
            return FLAG >> (7 - self.flag) & 1 == 1;
        }
        if self.ones == 5 {
            self.ones = 0;
            self.end_if_sent();
            return false;
        }
        let bit = self.bytes[self.sent / 8] >> (self.sent % 8) & 1 == 1;
        self.sent += 1;
        self.ones = if bit { self.ones + 1 } else { 0 };
        // Five ones at the very end are stuffed too.
        if self.ones < 5 {
            self.end_if_sent();
        }
        bit
    }

    fn end_if_sent(&mut self) {
        if self.sent == self.bits {
            (self.bits, self.sent, self.flag) = (0, 0, 8);
        }
    }

    fn load(&mut self, frame: &Frame) {
        let bytes = frame.bytes();
        self.bytes[..bytes.len()].copy_from_slice(bytes);
        let fcs = FCS.checksum(bytes).to_le_bytes();
        self.bytes[bytes.len()..bytes.len() + FCS_BYTES].copy_from_slice(&fcs);
        (self.bits, self.sent, self.ones) = ((bytes.len() + FCS_BYTES) * 8, 0, 0);
    }
}
