//! What two modems agree on: the modulation before a call, and the compression of its data.

use punctual_modem::exchange::Perfect;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::Desk;

/// Calls with the given settings of both ends. Returns each end's report of the modulation, the
/// calling end's first, and the seconds from dialling until both are connected.
fn agreed(settings: [&str; 2]) -> ([String; 2], f64) {
    let mut desk = Desk::new(Perfect);
    for (end, settings) in settings.into_iter().enumerate() {
        desk.types(end, format!("ATE0S0=1+MR=1;{settings}\r"));
        desk.until(end, "OK\r\n", 1);
    }
    desk.types(0, "ATD1\r");
    let from = desk.now;
    let said = [0, 1].map(|end| {
        let said = desk.until(end, "CONNECT", 60);
        let found = said.split_once("+MCR: ").expect("it says so").1;
        found.lines().next().expect("a line").to_owned()
    });
    let took = desk.now - from;
    // The call must carry data, not only report a name.
    desk.run(1);
    desk.shown = [vec![], vec![]];
    desk.types(0, "over there");
    desk.until(1, "over there", 20);
    desk.types(1, "over here");
    desk.until(0, "over here", 20);
    (said, took.as_secs_f64())
}

fn all_agree(name: &str, calls: &[[&str; 2]]) {
    for settings in calls {
        let (said, took) = agreed(*settings);
        assert_eq!(said, [name, name], "{settings:?}");
        println!("{settings:?}: {name} after {took:.1} s");
        assert!(took < 25.0, "{settings:?}: {took} s");
    }
}

#[test]
fn both_ends_negotiate_the_fastest_that_they_have_in_common() {
    all_agree("V22B", &[["+MS=V22B", "+MS=V22B"]]);
    all_agree("V23C", &[["+MS=V23C", "+MS=V22B"], ["+MS=V22B", "+MS=V23C"]]);
    all_agree("V21", &[["+MS=V22B", "+MS=V21"], ["+MS=V21", "+MS=V22B"], ["+MS=V23C", "+MS=V21"]]);
}

#[test]
fn an_end_without_negotiation_is_met_by_one_with_it() {
    all_agree("V22B", &[["+MS=V22B", "+MS=V22B,0"], ["+MS=V22B,0", "+MS=V22B"]]);
    all_agree("V21", &[["+MS=V21", "+MS=V21,0"], ["+MS=V21,0", "+MS=V21"]]);
    all_agree("V23C", &[["+MS=V23C", "+MS=V23C,0"], ["+MS=V23C,0", "+MS=V23C"]]);
}

#[test]
fn two_ends_without_negotiation_greet_with_an_answer_tone() {
    all_agree("V22B", &[["+MS=V22B,0", "+MS=V22B,0"]]);
    all_agree("V21", &[["+MS=V21,0", "+MS=V21,0"]]);
    all_agree("V23C", &[["+MS=V23C,0", "+MS=V23C,0"]]);
    all_agree("B103", &[["+MS=B103", "+MS=B103"]]);
}

#[test]
fn ends_without_a_common_modulation_both_report_no_carrier() {
    let mut desk = Desk::new(Perfect);
    desk.types(0, "ATE0S7=30+MS=V21,0\r");
    desk.types(1, "ATE0S7=30S0=1+MS=V22B,0\r");
    desk.run(1);
    desk.types(0, "ATD1\r");
    for end in 0..2 {
        desk.until(end, "NO CARRIER\r\n", 60);
        desk.run(1);
        assert!(!desk.exchange.station(end).is_off_hook());
    }
}

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
