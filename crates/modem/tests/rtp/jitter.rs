//! The jitter buffer compared with a map of all samples.

use std::collections::BTreeMap;

use punctual_modem::rtp::jitter::{FADE, JitterBuffer, LATE_LIMIT, PATTERN, RING};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Returns the sample sent at a timestamp: never zero, and different from its neighbours.
fn sent(timestamp: u32) -> i16 {
    (timestamp.wrapping_mul(2_654_435_761) >> 17).max(1) as i16
}

fn packet(timestamp: u32, len: u32) -> impl ExactSizeIterator<Item = i16> {
    (0..len).map(move |offset| sent(timestamp.wrapping_add(offset)))
}

fn play(buffer: &mut JitterBuffer, count: usize) -> Vec<i16> {
    let mut samples = vec![0; count];
    buffer.play(&mut samples);
    samples
}

/// Packets come in any order, some twice, some never, and are played sample by sample: exactly the
/// samples present in time are played.
#[test]
fn samples_in_time_are_played_in_their_place() {
    let (mut real, mut missing, mut late) = (0_u64, 0_u64, 0_u64);
    for seed in 0..1_500_u64 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let delay = 200 + rng.next_u32() % 400;
        // Half of the seeds are close to the wrap of timestamps.
        let base = if seed % 2 == 0 { rng.next_u32() } else { 0_u32.wrapping_sub(3_000) };
        let mut buffer = JitterBuffer::new(delay);
        let mut oracle: BTreeMap<u64, i16> = BTreeMap::new();
        // The arrival of each packet in samples of the local clock: its due time and some more.
        let mut arrivals: Vec<(u64, u64)> = (0..40_u64)
            .flat_map(|number| {
                let copies = [0, 1, 1, 1, 1, 1, 1, 2][rng.next_u32() as usize % 8];
                let copies = if number == 0 { 1 } else { copies };
                let late = if number == 0 { 0 } else { u64::from(rng.next_u32() % 500) };
                vec![(160 * number + late, number); copies]
            })
            .collect();
        arrivals.sort_unstable();
        let mut arrivals = arrivals.into_iter().peekable();
        for clock in 0..8_000_u64 {
            while let Some((_, number)) = arrivals.next_if(|&(at, _)| at <= clock) {
                buffer.put(
                    base.wrapping_add(160 * number as u32),
                    packet(base.wrapping_add(160 * number as u32), 160),
                );
                for offset in 160 * number..160 * (number + 1) {
                    oracle.insert(offset, sent(base.wrapping_add(offset as u32)));
                }
            }
            let heard = play(&mut buffer, 1)[0];
            match clock.checked_sub(delay.into()) {
                None => assert_eq!(heard, 0, "seed {seed}: silence before the first"),
                Some(offset) => match oracle.get(&offset) {
                    Some(&sample) => {
                        assert_eq!(heard, sample, "seed {seed} at {offset}");
                        real += 1;
                    }
                    None => missing += 1,
                },
            }
        }
        let stats = buffer.stats();
        assert_eq!(stats.real + stats.concealed + stats.waiting, 8_000);
        assert_eq!(stats.waiting, u64::from(delay));
        assert_eq!(stats.slips, 0, "seed {seed}");
        late += stats.late;
    }
    assert!(real > 1_000_000 && missing > 100_000 && late > 500, "{real} {missing} {late}");
}

#[test]
fn a_gap_is_heard_as_the_last_20_ms_fading_to_nothing() {
    let mut buffer = JitterBuffer::new(0);
    buffer.put(0, packet(0, 2 * PATTERN as u32));
    play(&mut buffer, 2 * PATTERN);
    let heard = play(&mut buffer, FADE as usize + 50);
    for (index, &sample) in heard.iter().enumerate() {
        let source = i32::from(sent((PATTERN + index % PATTERN) as u32));
        let left = (FADE as i32 - 1 - index as i32).max(0);
        assert_eq!(i32::from(sample), source * left / FADE as i32, "{index}");
    }
    assert_eq!(buffer.stats().concealed, u64::from(FADE) + 50);
}

#[test]
fn a_source_that_is_late_for_good_is_given_a_new_place() {
    let mut buffer = JitterBuffer::new(80);
    buffer.put(0, packet(0, 160));
    play(&mut buffer, 1_000);
    for number in 1..LATE_LIMIT {
        buffer.put(160 * (number % 3), packet(160 * (number % 3), 160));
        assert_eq!(buffer.stats().slips, 0);
    }
    buffer.put(480, packet(480, 160));
    assert_eq!((buffer.stats().slips, buffer.stats().late), (1, u64::from(LATE_LIMIT)));
    let heard = play(&mut buffer, 240);
    assert!(heard[..80].iter().all(|&sample| sample == 0));
    assert_eq!(heard[80..], packet(480, 160).collect::<Vec<_>>());
}

#[test]
fn a_jump_counts_when_a_second_packet_follows_it() {
    for jump in [RING as u32 + 160, 1 << 20, 1 << 31, 0_u32.wrapping_sub(1 << 20)] {
        let mut buffer = JitterBuffer::new(0);
        buffer.put(0, packet(0, 160));
        play(&mut buffer, 100);
        // Single packets, each from another position: ignored.
        for hostile in 0..50 {
            let timestamp = jump.wrapping_add(hostile * 7_000_000 % (1 << 19));
            buffer.put(timestamp, packet(timestamp, 160));
            assert_eq!(buffer.stats().slips, 0, "{jump}");
        }
        assert_eq!(play(&mut buffer, 60), packet(100, 60).collect::<Vec<_>>(), "{jump}");
        buffer.put(jump, packet(jump, 160));
        let next = jump.wrapping_add(160);
        buffer.put(next, packet(next, 160));
        assert_eq!(buffer.stats().slips, 1, "{jump}");
        assert_eq!(play(&mut buffer, 160), packet(next, 160).collect::<Vec<_>>());
    }
}

#[test]
fn packets_of_any_length_at_any_time_do_no_harm() {
    for seed in 0..300 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut buffer = JitterBuffer::new(rng.next_u32() % 5_000);
        let mut played = 0;
        for _ in 0..300 {
            let timestamp = match rng.next_u32() % 3 {
                0 => rng.next_u32(),
                _ => rng.next_u32() % 4_000,
            };
            buffer.put(timestamp, packet(timestamp, rng.next_u32() % 3_000));
            let count = (rng.next_u32() % 300) as usize;
            play(&mut buffer, count);
            played += count as u64;
            assert!(buffer.level() <= RING);
        }
        let stats = buffer.stats();
        assert_eq!(stats.real + stats.concealed + stats.waiting, played);
    }
}
