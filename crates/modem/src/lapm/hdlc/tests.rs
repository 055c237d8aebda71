//! Compares framer and deframer with the definition, computed the slow way.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::*;

/// Builds the line's bits with flags and stuffing, the slow way.
fn oracle(frame: &[u8]) -> Vec<bool> {
    let bits = |byte: u8| (0..8).map(move |i| byte >> i & 1 == 1);
    let mut with_fcs = frame.to_vec();
    // The definition: the remainder of a polynomial division, bit by bit.
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
fn invalid_frames_are_counted_and_the_next_frame_is_found() {
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
    // No flag for longer than the longest frame.
    let long = flag().chain(vec![false; 5_000]).collect();
    assert_eq!(run(long), (1, DeframerStats { too_long: 1, ..base }));
    // Any single wrong bit of a frame: never a wrong frame.
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

/// A receiver that counts ones and keeps bits one by one, the slow way.
#[derive(Default)]
struct SlowDeframer {
    bits: Option<Vec<bool>>,
    ones: u32,
    stats: DeframerStats,
}

impl SlowDeframer {
    fn put_bit(&mut self, bit: bool) -> Option<Vec<u8>> {
        let ones = self.ones;
        self.ones = if bit { ones + 1 } else { 0 };
        match (bit, ones) {
            (false, 5) => return None,
            (false, 6) => {
                let mut bits = self.bits.replace(Vec::new())?;
                // Drop the flag's own zero and ones, as far as it does not share its zero with the
                // previous flag.
                bits.truncate(bits.len().saturating_sub(7));
                return if bits.is_empty() { None } else { self.frame(&bits) };
            }
            (true, 6..) => {
                self.stats.aborted += u64::from(self.bits.take().is_some());
                return None;
            }
            _ => {}
        }
        let bits = self.bits.as_mut()?;
        bits.push(bit);
        if bits.len() == 8 * (MAX_FRAME + FCS_BYTES + 1) {
            self.bits = None;
            self.stats.too_long += 1;
        }
        None
    }

    fn frame(&mut self, bits: &[bool]) -> Option<Vec<u8>> {
        let byte = |bits: &[bool]| (0..8).fold(0, |byte, at| byte | u8::from(bits[at]) << at);
        let bytes: Vec<u8> = bits.chunks_exact(8).map(byte).collect();
        let whole = bits.len().is_multiple_of(8) && bytes.len() >= MIN_FRAME + FCS_BYTES;
        let frame = bytes[..bytes.len().saturating_sub(FCS_BYTES)].to_vec();
        if whole && FCS.checksum(&frame).to_le_bytes() == bytes[frame.len()..] {
            self.stats.good += 1;
            return Some(frame);
        }
        self.stats.bad += 1;
        None
    }
}

#[test]
fn any_bits_are_received_as_the_slow_way_does() {
    let mut all = DeframerStats::default();
    for seed in 0..400 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut framer = Framer::default();
        let (mut fast, mut slow) = (Deframer::default(), SlowDeframer::default());
        for at in 0..8_000 {
            let draw = rng.next_u32();
            // Long runs of ones and zeros in the frames, and frames of all lengths.
            let sent = framer.next_bit(|| {
                let mut bytes = vec![[0xff, 0x7e, 0x00, draw as u8][seed as usize % 4]; MAX_FRAME];
                rng.fill_bytes(&mut bytes[..draw as usize % 40]);
                (draw % 3 > 0).then(|| Frame::new(&[], &bytes[..draw as usize / 4 % MAX_FRAME]))
            });
            // By seed, a line has no errors, one wrong bit in a hundred, or only noise.
            let bit = match seed % 3 {
                0 => sent,
                1 => sent ^ rng.next_u32().is_multiple_of(100),
                // More ones than zeros, so that flags occur.
                _ => rng.next_u32() % 10 < 7,
            };
            let came = fast.put_bit(bit).map(<[u8]>::to_vec);
            assert_eq!(came, slow.put_bit(bit), "seed {seed}, bit {at}");
        }
        assert_eq!(fast.stats(), slow.stats, "seed {seed}");
        all.good += slow.stats.good;
        all.bad += slow.stats.bad;
        all.too_long += slow.stats.too_long;
        all.aborted += slow.stats.aborted;
    }
    println!("{all:?}");
    assert!(all.good > 500 && all.bad > 500 && all.aborted > 500, "{all:?}");
    assert!(all.too_long > 0, "{all:?}");
}
