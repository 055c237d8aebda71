//! Bits to frames.

use super::{FCS, FCS_BYTES, MAX_FRAME, MIN_FRAME};

/// What a deframer has thrown away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeframerStats {
    /// Frames with a right check sequence.
    pub good: u64,
    /// Frames with a wrong one, or not of whole bytes.
    pub bad: u64,
    /// Frames that were longer than [`MAX_FRAME`].
    pub too_long: u64,
    /// Frames ended by seven ones.
    pub aborted: u64,
}

/// Bits to frames.
#[derive(Clone, Debug)]
pub struct Deframer {
    /// One byte more than the longest frame: bits of the closing flag are stored before they are
    /// known to be one.
    bytes: [u8; MAX_FRAME + FCS_BYTES + 1],
    bits: usize,
    ones: u8,
    inside: bool,
    stats: DeframerStats,
}

impl Default for Deframer {
    fn default() -> Self {
        Self {
            bytes: [0; MAX_FRAME + FCS_BYTES + 1],
            bits: 0,
            ones: 0,
            inside: false,
            stats: DeframerStats::default(),
        }
    }
}

impl Deframer {
    /// Takes a bit of the line; returns the frame that it completes, without its check sequence.
    pub fn put_bit(&mut self, bit: bool) -> Option<&[u8]> {
        if bit {
            self.ones = self.ones.saturating_add(1);
            if self.ones < 7 {
                self.store(true);
            } else if std::mem::take(&mut self.inside) {
                self.stats.aborted += 1;
            }
            return None;
        }
        match std::mem::take(&mut self.ones) {
            5 => None,
            6 => {
                let (inside, bits) = (self.inside, self.bits);
                (self.inside, self.bits) = (true, 0);
                // A zero and six ones of the flag were stored; fewer bits lay between two flags.
                match bits.checked_sub(7) {
                    Some(bits) if inside && bits > 0 => self.complete(bits),
                    _ => None,
                }
            }
            _ => {
                self.store(false);
                None
            }
        }
    }

    /// What was received and thrown away.
    pub fn stats(&self) -> DeframerStats {
        self.stats
    }

    fn store(&mut self, bit: bool) {
        if !self.inside {
            return;
        }
        let Some(byte) = self.bytes.get_mut(self.bits / 8) else {
            self.inside = false;
            self.stats.too_long += 1;
            return;
        };
        let mask = 1 << (self.bits % 8);
        *byte = if bit { *byte | mask } else { *byte & !mask };
        self.bits += 1;
    }

    fn complete(&mut self, bits: usize) -> Option<&[u8]> {
        let len = bits / 8;
        let right = bits.is_multiple_of(8) && len >= MIN_FRAME + FCS_BYTES && {
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
