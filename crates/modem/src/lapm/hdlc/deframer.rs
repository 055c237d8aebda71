//! Bits to frames.

use super::{FCS, FCS_BYTES, FLAG, MAX_FRAME, MIN_FRAME};

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
    bytes: [u8; MAX_FRAME + FCS_BYTES],
    len: usize,
    /// The bits of the line that came last, the very last the highest.
    last: u8,
    /// The byte under way: the bit that came last is the highest.
    byte: u8,
    /// Bits of it that came. At a closing flag these are a zero and six ones of the flag, which are
    /// taken for the frame's until they are known to be a flag's.
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
    /// Takes a bit of the line; returns the frame that it completes, without its check sequence.
    pub fn put_bit(&mut self, bit: bool) -> Option<&[u8]> {
        if self.put_inside(bit) { None } else { self.put_other(bit) }
    }

    /// Takes a bit if it is inside of a byte, and neither a flag nor a stuffed zero nor an abort: that is
    /// a shift. Else nothing has happened, and it is a bit for [`Self::put_other`].
    #[inline]
    pub(in super::super) fn put_inside(&mut self, bit: bool) -> bool {
        let last = shifted(self.last, bit);
        // A zero behind five ones or more; the seventh one, or more.
        let is_inside = self.bits < 7 && !matches!(last, 0x7c..=0x7f | 0xfe..);
        if is_inside {
            self.last = last;
            self.byte = shifted(self.byte, bit);
            self.bits += 1;
        }
        is_inside
    }

    /// Takes a bit that is not inside of a byte; returns the frame that it completes.
    pub(in super::super) fn put_other(&mut self, bit: bool) -> Option<&[u8]> {
        self.last = shifted(self.last, bit);
        match self.last {
            FLAG => return self.flag(),
            // A zero behind exactly five ones.
            0x7c | 0x7d => {}
            // The seventh one, or more.
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

    /// What was received and thrown away.
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
        // Up to the seven bits of the flag itself lie between two flags.
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

/// With one bit more, which is the highest.
fn shifted(bits: u8, bit: bool) -> u8 {
    bits >> 1 | u8::from(bit) << 7
}
