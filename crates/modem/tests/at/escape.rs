//! Checks `+++` and its guard times, exactly to the nanosecond and against a slow oracle.

use punctual_model::{Duration, Instant};
use punctual_modem::at::escape::Escape;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::Bench;

const SECOND: Duration = Duration::from_secs(1);
const INSTANT: Duration = Duration::from_nanos(1);

#[test]
fn the_guard_time_before_and_after_is_exact() {
    for (before, between, after, escapes) in [
        (SECOND, Duration::ZERO, SECOND, true),
        (SECOND - INSTANT, Duration::ZERO, SECOND, false),
        (SECOND, SECOND - INSTANT, SECOND, true),
        (SECOND, SECOND, SECOND, false),
        (SECOND, Duration::ZERO, SECOND - INSTANT, false),
    ] {
        let mut bench = Bench::online();
        bench.wait(before);
        bench.types("+");
        bench.wait(between);
        bench.types("+");
        bench.wait(between);
        bench.types("+");
        let said = bench.wait(after);
        assert_eq!(said == "\r\nOK\r\n", escapes, "{before:?} {between:?} {after:?}: {said:?}");
        assert_eq!(bench.modem.is_online(), !escapes);
        assert_eq!(bench.sent, b"+++", "they travel in any case");
    }
}

#[test]
fn a_byte_at_the_very_end_of_the_guard_time_is_a_command() {
    let mut bench = Bench::online();
    bench.wait(SECOND);
    bench.types("+++");
    bench.now += SECOND;
    assert_eq!(bench.types("ATS12?\r"), "\r\nOK\r\n\r\n050\r\n\r\nOK\r\n");
    assert_eq!(bench.sent, b"+++");
}

#[test]
fn other_bytes_and_a_fourth_spoil_it_and_silence_mends_it() {
    for spoiled in ["++++", "++x", "x+++", "++x+", "---"] {
        let mut bench = Bench::online();
        bench.wait(SECOND);
        bench.types(spoiled);
        assert_eq!(bench.wait(SECOND * 2), "", "{spoiled}");
        bench.types("+++");
        assert_eq!(bench.wait(SECOND), "\r\nOK\r\n", "{spoiled}");
    }
}

#[test]
fn s2_names_the_character_or_turns_the_escape_off_and_s12_the_time() {
    let mut bench = Bench::new();
    bench.types("ATS2=45S12=5D1\r");
    bench.event(punctual_modem::at::LineEvent::Connected(super::CALL));
    bench.wait(Duration::from_millis(100));
    bench.types("---");
    assert_eq!(bench.wait(Duration::from_millis(100)), "\r\nOK\r\n");
    bench.types("ATS2=200O\r");
    bench.wait(SECOND * 3);
    for byte in [b'+', 200, b'-'] {
        (0..3).for_each(|_| bench.byte(byte));
        assert_eq!(bench.wait(SECOND * 3), "");
    }
}

#[test]
fn without_a_guard_time_three_in_a_row_escape_at_once() {
    let mut bench = Bench::new();
    bench.types("ATS12=0D1\r");
    bench.event(punctual_modem::at::LineEvent::Connected(super::CALL));
    assert_eq!(bench.types("data+++"), "\r\nOK\r\n");
    assert_eq!(bench.types("ATO0\r"), "\r\nCONNECT 2400\r\n");
}

/// The definition, over the whole history: returns true if an escape holds at `now`.
fn oracle(start: u64, history: &[(u64, u8)], now: u64, guard: u64) -> bool {
    let Some(first) = history.len().checked_sub(3) else { return false };
    let last_three = &history[first..];
    let before = if first == 0 { start } else { history[first - 1].0 };
    last_three.iter().all(|&(_, byte)| byte == b'+')
        && last_three[0].0 - before >= guard
        && last_three.windows(2).all(|pair| pair[1].0 - pair[0].0 < guard)
        && now - last_three[2].0 >= guard
}

#[test]
fn any_history_escapes_where_the_definition_says() {
    const GUARD: u64 = 5;
    let mut escapes = 0;
    for seed in 0..20_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut now = rng.next_u64() % 10;
        let start = now;
        let mut escape = Escape::new(Instant::from_nanos(now));
        let mut history = Vec::new();
        for _ in 0..12 {
            now += [0, 1, 4, 5, 6][rng.next_u32() as usize % 5];
            let over = escape.is_over(Instant::from_nanos(now), Duration::from_nanos(GUARD));
            assert_eq!(over, oracle(start, &history, now, GUARD), "seed {seed}: {history:?} {now}");
            if over {
                escapes += 1;
                break;
            }
            let byte = if rng.next_u32().is_multiple_of(5) { b'x' } else { b'+' };
            history.push((now, byte));
            let guard = Duration::from_nanos(GUARD);
            escape.byte(Instant::from_nanos(now), byte, Some(b'+'), guard);
        }
    }
    assert!(escapes > 1_000, "{escapes}");
}
