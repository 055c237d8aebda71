//! Calls whose data is compressed.

use punctual_modem::exchange::Perfect;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::Desk;

/// Connects with the given settings of both ends. Returns each end's report on compression, the
/// calling end's first.
fn reported(desk: &mut Desk<Perfect>, settings: [&str; 2]) -> [String; 2] {
    for (end, settings) in settings.into_iter().enumerate() {
        desk.types(end, format!("ATE0S0=1+MS=V22B,0;+DR=1;{settings}\r"));
        desk.until(end, "OK\r\n", 1);
    }
    desk.types(0, "ATD1\r");
    let said = [0, 1].map(|end| {
        let said = desk.until(end, "CONNECT", 60);
        said.split_once("+DR: ").expect("it says so").1.lines().next().expect("a line").to_owned()
    });
    desk.run(1);
    desk.shown = [vec![], vec![]];
    said
}

/// Returns the line seconds until bytes typed at one end are shown at the other.
fn seconds(desk: &mut Desk<Perfect>, from: usize, bytes: &[u8]) -> f64 {
    let begun = desk.now;
    desk.types(from, bytes);
    for _ in 0..600 * 50 {
        desk.step();
        if desk.shown[1 - from].len() >= bytes.len() {
            break;
        }
    }
    assert!(desk.shown[1 - from] == bytes, "{} bytes", desk.shown[1 - from].len());
    desk.shown[1 - from].clear();
    (desk.now - begun).as_secs_f64()
}

#[test]
fn text_is_faster_than_the_line_and_noise_is_not_slower() {
    let mut desk = Desk::new(Perfect);
    assert_eq!(reported(&mut desk, ["", ""]), ["V42B", "V42B"]);
    let text = b"a line of a log that says much the same as the one before\r\n".repeat(300);
    let mut noise = vec![0; 6_000];
    ChaCha8Rng::seed_from_u64(1).fill_bytes(&mut noise);
    for from in 0..2 {
        let raw = text.len() as f64 * 8.0 / 2_400.0;
        let took = seconds(&mut desk, from, &text);
        assert!(took < raw / 4.0, "{took} s instead of {raw}");
        let raw = noise.len() as f64 * 8.0 / 2_400.0;
        let took = seconds(&mut desk, from, &noise);
        assert!(took < raw * 1.15 + 1.0, "{took} s instead of {raw}");
        // A single key is not held back.
        assert!(seconds(&mut desk, from, b"x") < 0.6);
    }
}

#[test]
fn only_directions_that_both_ends_want_are_compressed() {
    for (settings, expected) in [
        (["+DS=0", ""], ["NONE", "NONE"]),
        (["", "+DS=0"], ["NONE", "NONE"]),
        (["+DS=1", ""], ["V42B TD", "V42B RD"]),
        (["", "+DS=1"], ["V42B RD", "V42B TD"]),
        (["+DS=2", "+DS=3"], ["V42B RD", "V42B TD"]),
        (["+DS=1", "+DS=1"], ["NONE", "NONE"]),
        // Without error control there is no compression.
        (["+ES=1", ""], ["NONE", "NONE"]),
    ] {
        let mut desk = Desk::new(Perfect);
        assert_eq!(reported(&mut desk, settings), expected, "{settings:?}");
        for from in 0..2 {
            seconds(&mut desk, from, &b"whatever it is, ".repeat(40));
        }
    }
}

#[test]
fn a_modem_that_requires_compression_hangs_up_without_it() {
    for settings in [["+DS=3,1", "+DS=0"], ["+DS=3,1", "+ES=,,1"]] {
        let mut desk = Desk::new(Perfect);
        for (end, settings) in settings.into_iter().enumerate() {
            desk.types(end, format!("ATE0S0=1+MS=V22B,0;{settings}\r"));
            desk.until(end, "OK\r\n", 1);
        }
        desk.types(0, "ATD1\r");
        let said = desk.until(0, "NO CARRIER", 60);
        assert!(!said.contains("CONNECT"), "{said}");
    }
}
