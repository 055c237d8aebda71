//! Random input at random times, with random events on the line.

use punctual_model::Duration;
use punctual_modem::at::{LineEvent, Order};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::{Bench, CALL};

/// Bytes that often form commands, so that few are wasted.
const ALPHABET: &[u8] = b"AATTatEVQXZDDHO&FCIS01235789=?+,;MSER/ \r\r\r\n\x08+++WP@\xff\x00";

const PHRASES: [&[u8]; 5] = [b"\rATD1\r", b"\rATA\r", b"+++", b"\rATO\r", b"\rATH\r"];

#[test]
fn whatever_happens_the_modem_stays_in_order_and_can_be_talked_to_afterwards() {
    let (mut calls, mut escapes) = (0, 0);
    for seed in 0..3_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut bench = Bench::echoing();
        // True while the line has been ordered to place or answer a call.
        let mut busy = false;
        for _ in 0..200 {
            match rng.next_u32() % 12 {
                0 => {
                    let online = bench.modem.is_online();
                    bench.wait(Duration::from_millis(u64::from(rng.next_u32() % 1_500)));
                    escapes += u32::from(online && !bench.modem.is_online());
                }
                1 => {
                    let event = [
                        LineEvent::Ring,
                        LineEvent::Connected(CALL),
                        LineEvent::Connected(CALL),
                        LineEvent::Busy,
                        LineEvent::Lost,
                    ][rng.next_u32() as usize % 5];
                    let connected = matches!(event, LineEvent::Connected(_));
                    let was_connecting = bench.modem.is_connecting();
                    bench.event(event);
                    calls += u32::from(connected && was_connecting && bench.modem.is_online());
                    if event != LineEvent::Ring && !connected {
                        busy &= bench.modem.has_call() || bench.modem.is_connecting();
                    }
                }
                2 => {
                    let phrase = PHRASES[rng.next_u32() as usize % PHRASES.len()];
                    if phrase == b"+++" {
                        bench.wait(Duration::from_secs(1));
                    }
                    phrase.iter().for_each(|&byte| bench.byte(byte));
                    bench.output();
                }
                _ => {
                    let byte = ALPHABET[rng.next_u32() as usize % ALPHABET.len()];
                    let online = bench.modem.is_online();
                    let sent = bench.sent.len();
                    bench.byte(byte);
                    if !online {
                        assert_eq!(bench.sent.len(), sent, "seed {seed}: only data is data");
                    }
                    bench.output();
                }
            }
            for order in bench.orders() {
                match order {
                    Order::Dial(_) | Order::Answer => {
                        assert!(!busy, "seed {seed}: two calls at a time");
                        busy = true;
                    }
                    Order::HangUp => {
                        assert!(busy, "seed {seed}: hangs up where there is nothing");
                        busy = false;
                    }
                }
            }
            let knows = bench.modem.has_call() || bench.modem.is_connecting();
            assert_eq!(busy, knows, "seed {seed}: line and modem agree");
        }
        // In any state a user gets back to OK: the call ends, the line is completed, and the
        // characters are reset.
        bench.event(LineEvent::Lost);
        let end = bench.modem.settings().registers.get(punctual_modem::at::Register::Terminator);
        bench.byte(end);
        bench.orders();
        bench.event(LineEvent::Lost);
        bench.output();
        for byte in *b"AT&FE0Q0V1" {
            bench.byte(byte);
        }
        bench.byte(end);
        bench.output();
        assert_eq!(bench.types("AT\r"), "\r\nOK\r\n", "seed {seed}");
    }
    assert!(calls > 1_000, "{calls}");
    assert!(escapes > 50, "{escapes}");
}

#[test]
fn every_line_is_answered_exactly_once() {
    for seed in 0..5_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut bench = Bench::new();
        let length = rng.next_u32() % 12;
        let body: String = (0..length)
            .map(|_| {
                loop {
                    let byte = ALPHABET[rng.next_u32() as usize % ALPHABET.len()];
                    if (b' '..0x7f).contains(&byte) {
                        break char::from(byte);
                    }
                }
            })
            .collect();
        let said = bench.types(&format!("AT{body}\r"));
        let settings = bench.modem.settings();
        let finals = ["\r\nOK\r\n", "\r\nERROR\r\n", "\r\nNO CARRIER\r\n", "0\r", "4\r", "3\r"];
        let ends = finals.iter().any(|code| said.ends_with(code));
        let silent = settings.quiet || bench.modem.is_connecting();
        // Numbers and words depend on V, and a changed S3 or S4 changes the line ends.
        let usual = settings.registers.get(punctual_modem::at::Register::Terminator) == 13
            && settings.registers.get(punctual_modem::at::Register::Formatter) == 10;
        if usual {
            assert_eq!(ends, !silent, "seed {seed}: AT{body} -> {said:?}");
            let count = said.matches("OK").count() + said.matches("ERROR").count();
            assert!(count <= 1, "seed {seed}: AT{body} -> {said:?}");
        }
    }
}
