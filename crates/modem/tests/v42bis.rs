//! Compression: the decoder returns the encoder's input, however it is divided and with every size;
//! and it refuses invalid input without harm.

use punctual_modem::v42bis::{Decoder, Encoder, Sizes};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Returns text much like people's: words of a small vocabulary.
fn text(rng: &mut ChaCha8Rng, len: usize) -> Vec<u8> {
    const WORDS: [&str; 24] = [
        "the", "line", "is", "a", "modem", "that", "answers", "when", "it", "rings", "and", "then",
        "nobody", "hears", "what", "was", "said", "over", "there", "again", "carrier", "lost",
        "of", "packets",
    ];
    let mut bytes = Vec::new();
    while bytes.len() < len {
        bytes.extend(WORDS[rng.next_u32() as usize % WORDS.len()].bytes());
        bytes.push(if rng.next_u32().is_multiple_of(9) { b'\n' } else { b' ' });
    }
    bytes.truncate(len);
    bytes
}

/// Returns data of kind `kind`: 0 random, 1 text, 2 one octet, 3 the escape character as it steps,
/// 4 few different octets, 5 runs, 6 all of these in turn.
fn data(kind: u32, rng: &mut ChaCha8Rng, len: usize) -> Vec<u8> {
    match kind {
        0 => {
            let mut bytes = vec![0; len];
            rng.fill_bytes(&mut bytes);
            bytes
        }
        1 => text(rng, len),
        2 => vec![rng.next_u32() as u8; len],
        3 => (0..len).map(|at| (at as u8).wrapping_mul(51)).collect(),
        4 => (0..len).map(|_| b"ab\x00\x33"[rng.next_u32() as usize % 4]).collect(),
        5 => {
            let mut bytes = Vec::new();
            while bytes.len() < len {
                let run = rng.next_u32() as usize % 300;
                bytes.extend(std::iter::repeat_n(rng.next_u32() as u8, run));
            }
            bytes.truncate(len);
            bytes
        }
        _ => {
            let mut bytes = Vec::new();
            while bytes.len() < len {
                let kind = rng.next_u32() % 6;
                let piece = rng.next_u32() as usize % 3_000;
                bytes.extend(data(kind, rng, piece));
            }
            bytes.truncate(len);
            bytes
        }
    }
}

/// Passes bytes through both ends, flushed at one of `one_in` octets and at the end. Returns the
/// number of octets sent in between.
fn passes(sizes: Sizes, bytes: &[u8], one_in: u32, rng: &mut ChaCha8Rng, context: &str) -> usize {
    let (mut encoder, mut decoder) = (Encoder::new(sizes), Decoder::new(sizes));
    let (mut came, mut sent) = (Vec::new(), 0);
    for (at, &octet) in bytes.iter().enumerate() {
        let mut line = Vec::new();
        encoder.put(octet, |coded| line.push(coded));
        assert!(line.len() <= 32, "{context}: {} octets because of one", line.len());
        let flushes = at + 1 == bytes.len() || rng.next_u32().is_multiple_of(one_in);
        if flushes {
            encoder.flush(|coded| line.push(coded));
            assert!(!encoder.holds_back());
        }
        sent += line.len();
        for coded in line {
            let taken = decoder.put(coded, |string| came.extend_from_slice(string));
            taken.unwrap_or_else(|why| panic!("{context}: {why} at {at}"));
        }
        if flushes {
            assert!(came.len() == at + 1, "{context}: {} of {} after a flush", came.len(), at + 1);
        }
    }
    assert!(came == bytes, "{context}: something else came out");
    sent
}

#[test]
fn whatever_goes_in_comes_out() {
    let sizes = [(512, 6), (512, 250), (600, 7), (2_048, 32), (4_096, 250)]
        .map(|(codewords, string)| Sizes::new(codewords, string).expect("in range"));
    for seed in 0..140 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let kind = seed as u32 % 7;
        let sizes = sizes[seed as usize / 7 % 5];
        let one_in = [u32::MAX, 300, 7, 1][seed as usize / 35];
        let len = 1 + rng.next_u32() as usize % 40_000;
        let bytes = data(kind, &mut rng, len);
        passes(sizes, &bytes, one_in, &mut rng, &format!("seed {seed}, kind {kind}, {sizes:?}"));
    }
}

#[test]
fn text_gets_shorter_and_what_cannot_get_shorter_hardly_longer() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut ratio = |kind| {
        let bytes = data(kind, &mut rng, 100_000);
        let sent = passes(Sizes::default(), &bytes, u32::MAX, &mut rng, "100,000 octets");
        sent as f64 / bytes.len() as f64
    };
    let [random, text, one] = [0, 1, 2].map(&mut ratio);
    println!("random {random:.3}, text {text:.3}, one octet {one:.3}");
    assert!(random < 1.01, "{random}");
    assert!(text < 0.5, "{text}");
    assert!(one < 0.08, "{one}");
}

#[test]
fn the_first_octets_are_those_of_the_recommendation() {
    // Transparent at first: unchanged octets, and the escape character with EID.
    let mut encoder = Encoder::new(Sizes::default());
    let mut line = Vec::new();
    for &octet in b"A\0B\x33\x33" {
        encoder.put(octet, |coded| line.push(coded));
    }
    // 0 was the escape character, then 51 (§9.2), then 102.
    assert_eq!(line, b"A\0\x01B\x33\x01\x33");
    // ECM; "A" and "B" as 9 bits each, lowest first, their octets and three more; FLUSH and padding.
    let line = [0x00, 0x00, 0x44, 0x8a, 0x04, 0x00];
    let mut decoder = Decoder::new(Sizes::default());
    let mut came = Vec::new();
    for octet in line {
        decoder.put(octet, |string| came.extend_from_slice(string)).expect("right");
    }
    assert_eq!(came, b"AB");
}

#[test]
fn nonsense_is_refused_or_decoded_and_never_more_than_that() {
    let mut refused = 0;
    for seed in 0..3_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let sizes = Sizes::new(512 + (rng.next_u32() % 3_585) as u16, 6 + (seed % 245) as u8);
        let mut decoder = Decoder::new(sizes.expect("in range"));
        let mut line = vec![0x00, 0x00];
        line.resize(2_000, 0);
        rng.fill_bytes(&mut line[2..]);
        if seed % 3 == 0 {
            // Small codewords: commands and strings that exist.
            line[2..].iter_mut().step_by(2).for_each(|octet| *octet &= 0x03);
        }
        for octet in line {
            let mut longest = 0;
            if decoder.put(octet, |string| longest = string.len()).is_err() {
                refused += 1;
                break;
            }
            assert!(longest <= 250, "seed {seed}");
        }
    }
    assert!(refused > 1_000, "{refused}");
}

#[test]
fn each_kind_of_nonsense_has_its_own_sentence() {
    let fails = |line: &[u8]| {
        let mut decoder = Decoder::new(Sizes::new(512, 6).expect("in range"));
        let mut all = line.iter().map(|&octet| decoder.put(octet, |_| {}));
        all.find_map(Result::err).map(|why| why.to_string()).unwrap_or_default()
    };
    assert!(fails(&[0, 9]).contains("command 9"));
    // STEPUP: 512 codewords have 9 bits.
    assert!(fails(&[0, 0, 2, 0]).contains("more than 9 bits"));
    // Codeword 300 before any string was learnt.
    assert!(fails(&[0, 0, 0x2c, 0x01]).contains("codeword 300"));
    assert_eq!(fails(b"plain text"), "");
}
