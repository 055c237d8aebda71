//! Compares the driver with one that is advanced nanosecond by nanosecond, and with the real card.

use super::*;
use punctual_model::Reservation;
use punctual_modem::card::{Card as RealCard, RING, SampleClock, Wire};
use punctual_sim::processor::{Periods, Place, Whole};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn ns(n: u64) -> Instant {
    Instant::from_nanos(n)
}

fn call(start: u64, interrupts: u64) -> Call {
    Call { start: ns(start), interrupts, give_up_ppm: 1_000_000, repeats_after: None }
}

/// Computes the same loss one nanosecond after the other. The processor is available in the first
/// `budget` of each `period`.
fn slowly(device: &Device, budget: u64, period: u64, call: Call) -> u64 {
    let (p, batch, lines) =
        (device.period.as_nanos(), u64::from(device.batch), device.lines as usize);
    let start = call.start.as_nanos();
    let end = start + p * call.interrupts;
    let mut flags = vec![false; lines];
    let mut read = vec![0; lines];
    let mut lost = 0;
    let (mut signals, mut line, mut left, mut holds) = (0u64, lines, 0u64, 0u64);
    for now in start..end {
        if now > start && (now - start).is_multiple_of(p) {
            signals += 1;
            for flag in &mut flags {
                lost += if *flag { batch } else { 0 };
                *flag = device.card == Card::Latch;
            }
        }
        let position = (now - start) * batch / p;
        let served = now % period < budget;
        loop {
            if left == 0 && holds > 0 {
                // Sample s was answered into the slot that is played as sample s + capacity.
                if let Card::Ring(capacity) = device.card {
                    let last = read[line];
                    let late = (last - holds..last).filter(|s| s + u64::from(capacity) < position);
                    lost += late.count() as u64;
                }
                (holds, line) = (0, line + 1);
            }
            if line == lines && left == 0 {
                if signals == 0 {
                    break;
                }
                (signals, line) = (signals - 1, 0);
            }
            if left > 0 || !served {
                break;
            }
            holds = match device.card {
                Card::Latch => u64::from(std::mem::take(&mut flags[line])) * batch,
                Card::Ring(capacity) => {
                    let pending = position - read[line];
                    let shown = pending % u64::from(capacity);
                    let piece = shown.min(u64::from(device.piece));
                    read[line] = position - shown + piece;
                    lost += pending - shown;
                    piece
                }
            };
            left = (device.work.as_nanos() * holds).div_ceil(batch);
            if holds == 0 {
                line += 1;
            }
        }
        if served && left > 0 {
            left -= 1;
        }
    }
    // The last interrupt comes at the end and finds the lines that are still flagged; an answer
    // just completed is written.
    let position = (end - start) * batch / p;
    if let (0, Card::Ring(capacity)) = (left, device.card) {
        let last = read.get(line).copied().unwrap_or(0);
        let late = (last - holds..last).filter(|s| s + u64::from(capacity) < position);
        lost += late.count() as u64;
    }
    for (flag, read) in flags.iter().zip(&read) {
        lost += match device.card {
            Card::Latch => u64::from(*flag) * batch,
            Card::Ring(capacity) => {
                let pending = position - read;
                pending - pending % u64::from(capacity)
            }
        };
    }
    lost
}

#[test]
fn calls_lose_what_they_lose_nanosecond_by_nanosecond() {
    let (mut intact, mut broken) = (0, 0);
    for seed in 0..3_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let lines = rng.random_range(1..4);
        let batch = rng.random_range(2..6);
        let card = if rng.random() { Card::Latch } else { Card::Ring(rng.random_range(6..24)) };
        let period = rng.random_range(20..40);
        let work = rng.random_range(1..=(period / u64::from(lines) / 2));
        let device = Device {
            period: Duration::from_nanos(period),
            batch,
            work: Service::from_nanos(work),
            piece: rng.random_range(1..8),
            lines,
            card,
        };
        let y = rng.random_range(4..50);
        let x = rng.random_range(1..=y);
        let call = call(rng.random_range(0..100), 40);
        let reservation =
            Reservation::new(Service::from_nanos(x), Duration::from_nanos(y)).expect("valid");
        let mut periods = Periods::new(reservation, Instant::ZERO, Place::Early);
        let found = run(&device, &mut periods, call);
        let expected = slowly(&device, x, y, call);
        assert_eq!(found.lost, expected, "seed {seed}: {device:?} {reservation} {call:?}");
        if found.is_intact() {
            intact += 1
        } else {
            broken += 1
        };
        // Detecting a repeated state does not change the loss.
        let common = (1..=y).rev().find(|d| y % d == 0 && period % d == 0).expect("1 divides");
        let known = Call { repeats_after: Some(y / common), ..call };
        let mut periods = Periods::new(reservation, Instant::ZERO, Place::Early);
        let round = run(&device, &mut periods, known);
        assert_eq!(round.lost, found.lost, "seed {seed}");
    }
    assert!(intact > 300 && broken > 300, "{intact} intact, {broken} broken");
}

struct Silence;

impl Wire for Silence {
    fn exchange(&mut self, _: i16) -> i16 {
        0
    }
}

#[test]
fn the_ring_is_the_real_cards() {
    let device = Device {
        period: punctual_modem::PERIOD,
        batch: 100,
        work: Service::ZERO,
        piece: u32::MAX,
        lines: 1,
        card: Card::Ring(RING as u32),
    };
    for seed in 0..200 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let start = rng.random_range(0..1_000_000_000);
        let mut counters = Counters {
            device: &device,
            call: call(start, 1_000),
            lines: vec![0],
            lost: 0,
            most: u64::MAX,
            round: false,
            seen: Vec::new(),
        };
        let mut card = RealCard::new(SampleClock::new(ns(start), 0), Silence);
        let (mut now, mut samples) = (start, [0; RING]);
        for _ in 0..100 {
            now += rng.next_u64() % 90_000_000;
            let read = card.read(ns(now), &mut samples);
            assert_eq!(counters.take(0, ns(now)), read as u64);
            now += rng.next_u64() % 80_000_000;
            card.write(ns(now), &samples[..read]);
            counters.answer(0, read as u64, ns(now));
            // The card also counts the answers to its lost samples as stale.
            let real = card.stats();
            assert_eq!(counters.lost, real.stale_samples, "seed {seed}: {real:?}");
        }
    }
}

#[test]
fn a_whole_processor_loses_nothing_and_too_small_a_one_is_given_up() {
    for card in [Card::Latch, Card::Ring(512)] {
        let device = Device::of_the_study(card);
        let whole = run(&device, &mut Whole, call(7, 2_960));
        assert!(whole.is_intact() && whole.of == 2_960 * 90);
        let half: Reservation = "920us/12500us".parse().expect("valid");
        let mut periods = Periods::new(half, Instant::ZERO, Place::Early);
        let lost = run(&device, &mut periods, call(7, 2_960));
        // The latch loses half of the samples; with a full ring, most answers are late, too.
        let least = if card == Card::Latch { 480_000..510_000 } else { 480_000..1_000_000 };
        assert!(least.contains(&lost.lost_ppm()), "{lost:?}");
        let mut periods = Periods::new(half, Instant::ZERO, Place::Early);
        let given_up = run(&device, &mut periods, Call { give_up_ppm: 50_000, ..call(7, 2_960) });
        assert!(given_up.gave_up && given_up.lost < lost.lost);
    }
}
