//! Anything as compressed data: never a panic, and never more than a string at a time. And anything
//! as data, flushed anywhere: it comes out as it went in.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_modem::v42bis::{Decoder, Encoder, Sizes};

fuzz_target!(|bytes: &[u8]| {
    let Some((&[first, second, third], rest)) = bytes.split_first_chunk() else { return };
    let codewords = 512 + u16::from(first) * 14;
    let Some(sizes) = Sizes::new(codewords, second.clamp(6, 250)) else { return };
    if third & 1 == 0 {
        let mut decoder = Decoder::new(sizes);
        for &octet in rest {
            let mut length = 0;
            let taken = decoder.put(octet, |string| length = string.len());
            assert!(length <= usize::from(sizes.string()));
            if taken.is_err() {
                return;
            }
        }
        return;
    }
    let (mut encoder, mut decoder) = (Encoder::new(sizes), Decoder::new(sizes));
    let mut came = Vec::new();
    // Often enough over the same bytes that strings grow.
    let data = rest.repeat(1 + usize::from(third >> 5));
    for (at, &octet) in data.iter().enumerate() {
        let mut line = Vec::new();
        encoder.put(octet, |coded| line.push(coded));
        if octet & 0x1f == third & 0x1e || at + 1 == data.len() {
            encoder.flush(|coded| line.push(coded));
        }
        for coded in line {
            decoder.put(coded, |string| came.extend_from_slice(string)).expect("an encoder's");
        }
    }
    assert_eq!(came, data);
});
