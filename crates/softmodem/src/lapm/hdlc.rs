//! Bits to frames and back: flags, bit stuffing, aborts, and the 16-bit check sequence (V.42 §8.1,
//! after ISO/IEC 13239). Bytes travel with their lowest bit first.

use crc::{CRC_16_IBM_SDLC, Crc};

/// The longest frame: address, two bytes of control, [`super::MAX_N401`] bytes of information.
pub const MAX_FRAME: usize = 3 + super::MAX_N401;

/// The shortest: address and control.
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
    /// A frame of `head` and then `information`, cut off at [`MAX_FRAME`].
    pub fn new(head: &[u8], information: &[u8]) -> Self {
        let mut frame = Self { bytes: [0; MAX_FRAME], len: 0 };
        for (slot, &byte) in frame.bytes.iter_mut().zip(head.iter().chain(information)) {
            *slot = byte;
            frame.len += 1;
        }
        frame
    }

    /// Address, control, information.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl core::fmt::Debug for Frame {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:02x?}", self.bytes())
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// The line's bits, flags and stuffing made by hand: the slow way.
    fn oracle(frame: &[u8]) -> Vec<bool> {
        let bits = |byte: u8| (0..8).map(move |i| byte >> i & 1 == 1);
        let mut with_fcs = frame.to_vec();
        // The definition: a remainder of polynomials, bit by bit.
        let mut fcs = 0xffff_u16;
        for bit in frame.iter().flat_map(|&byte| bits(byte)) {
            let odd = (fcs & 1 == 1) != bit;
            fcs = (fcs >> 1) ^ if odd { 0x8408 } else { 0 };
        }
        with_fcs.extend((!fcs).to_le_bytes());
        let mut line: Vec<bool> = bits(FLAG).collect();
        let mut ones = 0;
        for bit in with_fcs.into_iter().flat_map(bits) {
            line.push(bit);
            ones = if bit { ones + 1 } else { 0 };
            if ones == 5 {
                line.push(false);
                ones = 0;
            }
        }
        line.extend(bits(FLAG));
        line
    }

    #[test]
    fn the_check_sequence_is_the_published_one() {
        assert_eq!(FCS.checksum(b"123456789"), 0x906e, "the catalogue's check value");
        // ISO/IEC 3309, annex B: the example frame 03 3F has the check sequence 5B EC.
        assert_eq!(FCS.checksum(&[0x03, 0x3f]).to_le_bytes(), [0x5b, 0xec]);
    }

    #[test]
    fn frames_become_the_bits_of_the_definition_and_come_back() {
        let frames: Vec<Vec<u8>> = vec![
            vec![0x03, 0x7f],
            vec![0xff; 40],
            vec![0; 3],
            (0..=255).collect(),
            vec![0x7e; MAX_FRAME],
            vec![0xf8, 0x1f, 0xfc],
        ];
        let mut framer = Framer::default();
        let mut deframer = Deframer::default();
        let mut left = frames.iter();
        let mut line = Vec::new();
        let mut came: Vec<Vec<u8>> = Vec::new();
        for _ in 0..10_000 {
            let bit = framer.next_bit(|| left.next().map(|bytes| Frame::new(bytes, &[])));
            line.push(bit);
            came.extend(deframer.put_bit(bit).map(<[u8]>::to_vec));
        }
        assert_eq!(came, frames);
        let mut at = 0;
        for frame in &frames {
            let expected = oracle(frame);
            assert_eq!(line[at..at + expected.len()], expected, "{frame:02x?}");
            at += expected.len() - 8;
        }
        let good = frames.len() as u64;
        assert_eq!(deframer.stats(), DeframerStats { good, ..Default::default() });
    }

    #[test]
    fn what_is_no_frame_is_counted_and_the_next_frame_is_found() {
        let good = oracle(&[1, 2, 3]);
        let flag = || oracle(&[]).into_iter().take(8);
        let run = |bits: Vec<bool>| {
            let mut deframer = Deframer::default();
            let mut came = Vec::new();
            for bit in bits.into_iter().chain(good.clone()) {
                came.extend(deframer.put_bit(bit).map(<[u8]>::to_vec));
            }
            assert_eq!(came.last(), Some(&vec![1, 2, 3]));
            (came.len(), deframer.stats())
        };
        let base = DeframerStats { good: 1, ..Default::default() };
        // An abort inside a frame.
        let aborted = flag().chain(vec![false; 20]).chain(vec![true; 9]).collect();
        assert_eq!(run(aborted), (1, DeframerStats { aborted: 1, ..base }));
        // Noise before the first flag is not counted at all.
        assert_eq!(run(vec![false; 5_000]), (1, base));
        // No flag for longer than a frame may last.
        let long = flag().chain(vec![false; 5_000]).collect();
        assert_eq!(run(long), (1, DeframerStats { too_long: 1, ..base }));
        // Each single wrong bit of a frame: never a wrong frame.
        for wrong in 8..good.len() - 8 {
            let mut bits = good.clone();
            bits[wrong] ^= true;
            let (frames, stats) = run(bits);
            assert_eq!((frames, stats.good), (1, 1), "bit {wrong}");
        }
    }

    #[test]
    fn flags_may_share_their_zero() {
        let flag = [true, true, true, true, true, true, false];
        let mut deframer = Deframer::default();
        let bits = [false].into_iter().chain(flag).chain(flag).chain(flag);
        for bit in bits.chain(oracle(&[4, 5]).into_iter().skip(1)) {
            if let Some(frame) = deframer.put_bit(bit) {
                assert_eq!(frame, [4, 5]);
            }
        }
        assert_eq!(deframer.stats(), DeframerStats { good: 1, ..Default::default() });
    }
}
