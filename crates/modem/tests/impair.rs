//! The effect of each wrapper on samples, and of a bad line on a whole modem.

use std::collections::VecDeque;
use std::f64::consts::TAU;

use punctual_model::{Duration, Instant};
use punctual_modem::exchange::{Exchange, Medium, Perfect};
use punctual_modem::impair::{Attenuation, Drift, Echo, GAP, Gaps, LINE, Noise, Quality};

fn rms(samples: impl Iterator<Item = i16>) -> f64 {
    let squares: Vec<f64> = samples.map(|sample| f64::from(sample).powi(2)).collect();
    (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
}

fn sine(hertz: f64) -> impl Iterator<Item = i16> {
    (0..).map(move |n| ((TAU * hertz * f64::from(n) / 8_000.0).sin() * 10_000.0) as i16)
}

#[test]
fn attenuation_takes_what_it_says() {
    for db in [0.0, 6.0, 20.0] {
        let mut line = Attenuation::new(Perfect, db);
        let out = rms(sine(1_000.0).take(8_000).map(|sample| line.pass(0, sample)));
        let ratio = 20.0 * (10_000.0 / 2f64.sqrt() / out).log10();
        assert!((ratio - db).abs() < 0.02, "{db}: {ratio}");
    }
    assert_eq!(Attenuation::new(Perfect, -20.0).pass(0, 30_000), i16::MAX, "and never wraps");
}

#[test]
fn noise_has_the_level_it_says_and_a_seed_says_it_again() {
    let run = |seed| {
        let mut line = Noise::new(Perfect, -30.0, seed);
        (0..40_000).map(|_| line.pass(0, 0)).collect::<Vec<i16>>()
    };
    // 6.16 dBm0 is a square wave at full scale.
    let dbm0 = 20.0 * (rms(run(1).into_iter()) / 32_768.0).log10() + 6.16;
    assert!((dbm0 + 30.0).abs() < 0.1, "{dbm0}");
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// The echo of each end is its own signal of some samples before, and not the other end's.
#[test]
fn an_echo_returns_to_its_sender() {
    let mut line = Echo::new(Perfect, Some(20.0), 5);
    let mut said: [VecDeque<i16>; 2] = [VecDeque::from([0; 5]), VecDeque::from([0; 5])];
    for n in 0..1_000_i16 {
        let says = [n * 10, 5_000 - n * 7];
        for from in 0..2 {
            said[from].push_back(says[from]);
            // End 0 sends first, so its echo of end 1 in this loop is one sample older.
            let heard = line.pass(from, says[from]);
            let own = said[1 - from].len() - 5;
            let expected = i32::from(says[from]) + ((i32::from(said[1 - from][own]) * 3_277) >> 15);
            assert!((i32::from(heard) - expected).abs() <= 1, "{n} {from}");
        }
    }
    let mut quiet = Echo::new(Perfect, None, 5);
    assert!((0..100).all(|n| quiet.pass(n % 2, 77) == 77));
}

#[test]
fn gaps_lose_their_share_in_whole_gaps() {
    for per_million in [0, 2_000, 10_000, 200_000] {
        let mut line = Gaps::new(Perfect, per_million, GAP, 7);
        let out: Vec<i16> = (0..4_000_000).map(|_| line.pass(0, 1)).collect();
        let lost = out.iter().filter(|&&sample| sample == 0).count();
        assert_eq!(lost as u64, line.lost());
        let share = lost as f64 / out.len() as f64;
        let wanted = f64::from(per_million) / 1e6;
        assert!((share - wanted).abs() < 0.15 * wanted + 1e-9, "{share} of {wanted}");
        let runs = out.chunk_by(|a, b| a == b).filter(|run| run[0] == 0);
        for run in runs.take(lost / GAP as usize / 2) {
            assert!(run.len().is_multiple_of(GAP as usize), "{}", run.len());
        }
    }
}

#[test]
fn drift_changes_the_frequency_each_end_hears_and_keeps_the_signal_clean() {
    for ppm in [-200, 200] {
        let mut line = Drift::new(Perfect, ppm);
        for (from, sign) in [(0, -1.0), (1, 1.0)] {
            let hertz = 1_800.0;
            let out: Vec<i16> =
                sine(hertz).map(|sample| line.pass(from, sample)).take(LINE * 8).collect();
            // The received signal is a sine of the changed frequency: project onto that.
            let heard = hertz * (1.0 + sign * f64::from(ppm) * 1e-6);
            let tail = &out[LINE * 2..];
            let project = |shift: f64| {
                let angle = |n: usize| TAU * heard * n as f64 / 8_000.0 + shift;
                let terms = tail.iter().enumerate();
                terms.map(|(n, &s)| f64::from(s) * angle(n).sin()).sum::<f64>() * 2.0
                    / tail.len() as f64
            };
            let (sin, cos) = (project(0.0), project(TAU / 4.0));
            let signal = (sin * sin + cos * cos) / 2.0;
            let noise = rms(tail.iter().copied()).powi(2) - signal;
            let snr = 10.0 * (signal / noise.max(1e-3)).log10();
            // The projection itself is accurate to some 40 dB over so few periods.
            assert!(snr > 35.0, "{ppm} {from}: {snr} dB");
        }
        assert_eq!(line.slips(), 0);
    }
}

#[test]
fn drift_slips_when_its_line_is_used_up_and_not_before() {
    let mut line = Drift::new(Perfect, 500);
    let until_slip = (1..).find(|_| {
        line.pass(0, 1);
        line.slips() > 0
    });
    // Half the line, minus half of the interpolation, at 500 ppm.
    let expected = (LINE as u64 / 2 - 16) * 2_000;
    let slip = until_slip.expect("it slips");
    assert!((expected..expected + 4_000).contains(&slip), "{slip}");
    let mut none = Drift::new(Perfect, 0);
    assert!((0..10_000).all(|n| none.pass(0, n) == n));
}

/// Places a call and sends a text over a line. Returns whether every byte came, and whether there
/// was a NO CARRIER.
fn call(quality: Quality) -> (bool, bool) {
    let mut exchange = Exchange::new(quality.medium());
    let mut now = Instant::from_nanos(1_000_000_000);
    let text: Vec<u8> = (0..2_000_u32).map(|n| b'a' + (n * n % 23) as u8).collect();
    let mut typing = [b"ATE0+ES=3,3,5\rATD1\r".to_vec(), b"ATE0S0=1+ES=3,3,5\r".to_vec()];
    let mut shown: [Vec<u8>; 2] = [vec![], vec![]];
    let mut written = false;
    for _ in 0..150 * 50 {
        for end in 0..2 {
            let taken = exchange.station(end).terminal(now, &typing[end]);
            typing[end].drain(..taken);
            let mut room = [0; 200];
            let count = exchange.station(end).take_output(&mut room);
            shown[end].extend(&room[..count]);
        }
        if !written && shown[0].ends_with(b"CONNECT 2400\r\n") {
            written = true;
            typing[0].extend(&text);
        }
        exchange.step(now);
        now += Duration::from_millis(20);
    }
    let connect = b"CONNECT 2400\r\n";
    let data = shown[1]
        .windows(connect.len())
        .position(|window| window == connect)
        .map_or(&[][..], |at| &shown[1][at + connect.len()..]);
    let end = b"\r\nNO CARRIER\r\n";
    let came = data.strip_suffix(end).unwrap_or(data);
    let shown = String::from_utf8_lossy(&came[..came.len().min(100)]);
    assert!(text.starts_with(came), "{quality:?}: garbage: {shown:?}");
    (came == text, data.ends_with(end))
}

const GOOD: Quality =
    Quality { loss_db: 10.0, snr_db: 40.0, echo_db: None, ppm: 0, gaps_per_million: 0, seed: 1 };

#[test]
fn a_modem_lives_with_noise_echo_and_drift_and_is_honest_about_the_rest() {
    for quality in [
        GOOD,
        Quality { snr_db: 22.0, ..GOOD },
        Quality { echo_db: Some(20.0), ..GOOD },
        Quality { ppm: 50, ..GOOD },
        Quality { ppm: -100, ..GOOD },
    ] {
        assert_eq!(call(quality), (true, false), "{quality:?}");
    }
    // Gaps of 20 ms, a line of noise: all bytes or NO CARRIER, but no garbage (checked in `call`).
    for seed in 0..4 {
        call(Quality { gaps_per_million: 2_000, seed, ..GOOD });
        call(Quality { gaps_per_million: 10_000, seed, ..GOOD });
        call(Quality { snr_db: 6.0, seed, ..GOOD });
    }
}
