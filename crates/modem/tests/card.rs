//! The card at its boundaries: lost and stale samples, and the balance of its counters.

use punctual_model::{Duration, Instant};
use punctual_modem::card::{Card, CardStats, RING, SampleClock, Wire};

/// A line that sends its sample number and records the samples it receives.
#[derive(Default)]
struct Counter {
    heard: Vec<i16>,
}

impl Wire for Counter {
    fn exchange(&mut self, played: i16) -> i16 {
        self.heard.push(played);
        ((self.heard.len() - 1) % 30_000) as i16
    }
}

const START: Instant = Instant::from_nanos(7_000_000_000);

/// The first instant at which `samples` are complete: 125 us each.
fn after(samples: u64) -> Instant {
    START + Duration::from_micros(125) * samples
}

fn card() -> Card<Counter> {
    Card::new(SampleClock::new(START, 0), Counter::default())
}

/// Reads at `position` and answers at once, each sample being `sample`. Returns the samples read.
fn serve(card: &mut Card<Counter>, position: u64, sample: i16) -> Vec<i16> {
    let mut buffer = [0; RING];
    let count = card.read(after(position), &mut buffer);
    card.write(after(position), &[sample; RING][..count]);
    buffer[..count].to_vec()
}

#[test]
fn the_position_is_the_floor_of_elapsed_samples() {
    let clock = SampleClock::new(START, 0);
    assert_eq!(clock.position(Instant::ZERO), 0, "before the start");
    assert_eq!(clock.position(after(1) - Duration::from_nanos(1)), 0);
    assert_eq!(clock.position(after(1)), 1);
    assert_eq!(clock.position(after(100)), 100);
    let day = START + Duration::from_secs(86_400);
    assert_eq!(clock.position(day), 691_200_000);
    assert_eq!(SampleClock::new(START, 100).position(day), 691_269_120);
    assert_eq!(SampleClock::new(START, -100).position(day), 691_130_880);
    assert!(SampleClock::new(Instant::ZERO, i16::MAX).position(Instant::MAX) > 1 << 46);
}

#[test]
fn up_to_511_pending_are_read_and_answered_in_time() {
    let mut card = card();
    assert_eq!(serve(&mut card, 511, 9), (0..511).collect::<Vec<i16>>());
    assert_eq!(card.stats(), CardStats { most_pending: 511, ..CardStats::default() });
    // Played after one ring of silence, and none too late.
    serve(&mut card, 1022, 0);
    let heard = &card.wire().heard;
    assert!(heard[..512].iter().all(|&s| s == 0));
    assert!(heard[512..1022].iter().all(|&s| s == 9));
    assert_eq!(card.stats().stale_samples, 0);
}

#[test]
fn at_512_pending_the_count_wraps_to_zero() {
    let mut card = card();
    assert_eq!(serve(&mut card, 512, 9), []);
    let lost = CardStats { samples_lost: 512, overruns: 1, stale_samples: 512, most_pending: 512 };
    assert_eq!(card.stats(), lost);
    // The driver is in step again: no further samples are lost.
    assert_eq!(serve(&mut card, 612, 9), (512..612).collect::<Vec<i16>>());
    assert_eq!(card.stats(), lost);
}

#[test]
fn at_513_and_beyond_only_the_remainder_is_read() {
    let mut card = card();
    assert_eq!(serve(&mut card, 513, 9), [512]);
    assert_eq!(card.stats().samples_lost, 512);
    assert_eq!(serve(&mut card, 513 + 512 * 3 + 2, 9), [2049, 2050]);
    assert_eq!(
        card.stats(),
        CardStats {
            samples_lost: 512 * 4,
            overruns: 2,
            stale_samples: 512 * 4,
            most_pending: 512 * 3 + 2
        }
    );
}

#[test]
fn a_wrap_makes_the_line_hear_the_old_ring_again() {
    let mut card = card();
    for k in 1..=5u64 {
        serve(&mut card, 100 * k, k as i16);
    }
    // Not served for 600 samples from 500: 512 are lost, and the ring plays on.
    serve(&mut card, 1100, 7);
    serve(&mut card, 1200, 8);
    let heard = &card.wire().heard;
    assert_eq!((heard[511], heard[512], heard[611], heard[1011]), (0, 1, 1, 5));
    assert_eq!(heard[1012], 0, "slots 500..512 were never written");
    assert_eq!(heard[1024], 1, "the first answer is heard a second time");
    assert_eq!(card.stats().stale_samples, 512);
}

#[test]
fn an_answer_is_stale_sample_by_sample_once_its_play_time_passed() {
    // Samples 0..100 are answered by 512..612, which play at 512..612.
    for (written_at, stale) in [(512, 0), (513, 1), (611, 99), (612, 100), (2000, 100)] {
        let mut card = card();
        let mut buffer = [0; RING];
        let count = card.read(after(100), &mut buffer);
        card.write(after(written_at), &[9; 100]);
        assert_eq!((count, card.stats().stale_samples), (100, stale), "at {written_at}");
        assert_eq!(card.stats().samples_lost, 0, "the answer was late, not the read");
    }
}

#[test]
fn answers_never_written_are_stale_too() {
    let mut card = card();
    let mut buffer = [0; RING];
    assert_eq!(card.read(after(100), &mut buffer), 100);
    card.write(after(100), &[9; 40]);
    assert_eq!(serve(&mut card, 200, 9).len(), 100);
    assert_eq!(card.stats().stale_samples, 60);
}

#[test]
#[should_panic(expected = "more samples written than were read")]
fn more_samples_than_were_read_are_refused() {
    let mut card = card();
    card.write(after(10), &[9]);
}

#[test]
fn an_earlier_instant_changes_nothing() {
    let mut card = card();
    serve(&mut card, 300, 9);
    assert_eq!(serve(&mut card, 200, 9), []);
    assert_eq!(card.pending(after(200)), 0);
    assert_eq!(card.pending(after(310)), 10);
    assert_eq!(card.position_read(), 300);
}

/// For any pattern of lateness, every sample is read or lost, and the line receives exactly as many
/// stale samples as were counted. The oracle: each answer carries the number of the sample at which
/// it should play, so that the line can check.
#[test]
fn the_counters_balance() {
    let mut card = card();
    let (mut position, mut read, mut state) = (0, 0, 12345u64);
    for round in 0..2_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (gap, late) = match round {
            // In time at the end, for more than a ring: by then the line has received all stale
            // samples.
            1_990.. => (100, 0),
            _ => ((state >> 33) % 900, (state >> 50) % 300),
        };
        let mut buffer = [0; RING];
        position += gap;
        let count = card.read(after(position), &mut buffer) as u64;
        read += count;
        assert_eq!(read + card.stats().samples_lost, card.position_read());
        assert!(card.stats().samples_lost.is_multiple_of(RING as u64));
        position += late;
        let first = card.position_read() - count + RING as u64;
        let answer: Vec<i16> = (first..first + count).map(mark).collect();
        card.write(after(position), &answer);
    }
    assert!(card.stats().overruns > 100);
    let heard = card.wire().heard.iter().zip(0u64..).skip(RING);
    let stale = heard.filter(|&(&sample, at)| sample != mark(at)).count() as u64;
    assert_eq!(card.stats().stale_samples, stale);
}

/// Returns the mark of an answer meant for sample `at`: never 0, and different a few rings later.
fn mark(at: u64) -> i16 {
    (at % 30_011) as i16 + 1
}
