//! Calls over a good line.

use punctual_modem::exchange::Perfect;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::Desk;

fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// Makes a call, sends bytes both ways, ends it, and makes another.
fn both_ways(settings: [&str; 2], len: usize, seconds: u64) {
    let mut desk = Desk::new(Perfect);
    let took = desk.call(settings);
    assert!(took < 20.0, "{settings:?}: {took} s to connect");
    let sent = [random(1, len), random(2, len / 2)];
    desk.types(0, &sent[0]);
    desk.types(1, &sent[1]);
    for _ in 0..seconds * 50 {
        desk.step();
        if desk.shown[1].len() >= sent[0].len() && desk.shown[0].len() >= sent[1].len() {
            break;
        }
    }
    assert!(desk.shown[1] == sent[0], "{settings:?}: {} of {len}", desk.shown[1].len());
    assert!(desk.shown[0] == sent[1], "{settings:?}: {} of {}", desk.shown[0].len(), len / 2);
    desk.shown = [vec![], vec![]];
    // The guard time before and after.
    desk.run(2);
    desk.types(0, "+++");
    assert_eq!(desk.until(0, "OK", 3), "\r\nOK\r\n");
    desk.types(0, "ATH\r");
    desk.until(0, "OK\r\n", 2);
    let far = desk.until(1, "NO CARRIER\r\n", 20);
    assert!(far.ends_with("\r\nNO CARRIER\r\n"), "{far:?}");
    desk.run(4);
    for end in 0..2 {
        assert!(!desk.exchange.station(end).is_off_hook(), "{settings:?}");
    }
    // Another call: no state is left of the first.
    desk.call(settings);
}

#[test]
fn v22bis_with_error_control_carries_bytes_both_ways() {
    both_ways(["+ER=1", "+ER=1"], 6_000, 60);
}

#[test]
fn v22bis_without_error_control_does_so_too() {
    both_ways(["+ES=1", ""], 3_000, 60);
    both_ways(["", "+ES=,,1"], 3_000, 60);
}

#[test]
fn the_slow_modulations_carry_bytes_with_error_control_and_without() {
    for name in ["V21", "B103"] {
        let own = format!("+MS={name}");
        let plain = format!("+MS={name};+ES=1,0,1");
        both_ways([&own, &own], 300, 60);
        both_ways([&plain, &plain], 300, 60);
    }
}

#[test]
fn v23_is_fast_one_way() {
    both_ways(["+MS=V23C;+ES=1", "+MS=V23C;+ES=,,1"], 100, 60);
}

#[test]
fn both_ends_say_what_they_agreed_on() {
    let mut desk = Desk::new(Perfect);
    for end in 0..2 {
        desk.types(end, "ATE0S0=1+ER=1;+MR=1\r");
        desk.until(end, "OK\r\n", 1);
    }
    desk.types(0, "ATD1\r");
    for end in 0..2 {
        let said = desk.until(end, "CONNECT 2400\r\n", 30);
        let expected = "\r\n+MCR: V22B\r\n+MRR: 2400,2400\r\n\r\n+ER: LAPM\r\n\r\nCONNECT 2400\r\n";
        assert!(said.ends_with(expected), "{said:?}");
        assert_eq!(said.contains("RING"), end == 1);
    }
}

#[test]
fn bytes_written_before_hanging_up_arrive() {
    let mut desk = Desk::new(Perfect);
    desk.call(["S12=5", ""]);
    let sent = random(5, 500);
    desk.types(0, &sent);
    desk.run(1);
    desk.types(0, "+++");
    desk.until(0, "OK", 1);
    desk.types(0, "ATH\r");
    desk.run(10);
    // The escape itself is data too.
    let expected = [&sent[..], b"+++\r\nNO CARRIER\r\n"].concat();
    assert!(desk.shown[1] == expected, "{:?}", String::from_utf8_lossy(&desk.shown[1]));
}

#[test]
fn a_call_on_hold_goes_on_with_what_came_meanwhile() {
    let mut desk = Desk::new(Perfect);
    desk.call(["", ""]);
    desk.run(1);
    desk.types(0, "+++");
    desk.until(0, "OK", 3);
    desk.types(1, "meanwhile");
    desk.run(3);
    assert!(desk.shown[0].is_empty() || desk.shown[0] == b"\r\n");
    desk.shown[0].clear();
    desk.types(0, "ATO\r");
    assert!(desk.until(0, "meanwhile", 3).ends_with("CONNECT 2400\r\nmeanwhile"));
}

#[test]
fn no_answer_busy_and_giving_up_are_reported() {
    let mut desk = Desk::new(Perfect);
    desk.types(0, "ATE0S7=100D1\r");
    let rings = desk.until(1, "RING\r\n\r\nRING", 20);
    assert_eq!(rings.matches("RING").count(), 2);
    assert!(desk.until(0, "NO ANSWER", 70).contains("NO ANSWER"));
    // The modem that dials takes the line, and it is busy for the other.
    desk.types(0, "ATD1\r");
    desk.run(3);
    desk.types(1, "ATE0D1\r");
    desk.until(1, "BUSY", 5);
    // Any key gives up, and the ringing stops.
    desk.types(0, "x");
    desk.until(0, "NO CARRIER", 1);
    desk.run(1);
    desk.shown[1].clear();
    desk.run(13);
    assert!(desk.shown[1].is_empty());
    assert!(!desk.exchange.station(0).is_off_hook());
}

#[test]
fn a_call_can_be_answered_by_hand() {
    let mut desk = Desk::new(Perfect);
    desk.types(0, "ATD1\r");
    desk.until(1, "RING", 5);
    desk.types(1, "ATA\r");
    desk.until(0, "CONNECT 2400", 20);
    desk.until(1, "CONNECT 2400", 20);
}
