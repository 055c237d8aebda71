//! Turns bits into frames.

use super::{FCS, FCS_BYTES, FLAG, MAX_FRAME, MIN_FRAME};

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
    pub(in super::super) fn put_inside(&mut self, bit: bool) -> bool {
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
    pub(in super::super) fn put_other(&mut self, bit: bool) -> Option<&[u8]> {
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
