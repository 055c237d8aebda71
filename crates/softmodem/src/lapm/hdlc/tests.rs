//! Against the definition, made by hand.

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
