//! From sender to receiver over a network.

use punctual_model::{Duration, Instant};
use punctual_modem::rtp::packet::PacketError;
use punctual_modem::rtp::{Law, Receiver, Refused, SAMPLES_PER_PACKET, Sender};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

const TWENTY_MS: Duration = Duration::from_millis(20);

/// Returns the packets of `count` times 20 ms of a ramp.
fn packets(sender: &mut Sender, count: usize) -> Vec<Vec<u8>> {
    let mut packet = Vec::new();
    let samples = (0..count * SAMPLES_PER_PACKET).map(|n| (n as i16).wrapping_mul(37));
    let mut packets = Vec::new();
    for sample in samples {
        if sender.sample(sample, &mut packet) {
            packets.push(packet.clone());
        }
    }
    packets
}

fn ramp(from: usize, count: usize, law: Law) -> Vec<i16> {
    (from..from + count).map(|n| law.decode(law.encode((n as i16).wrapping_mul(37)))).collect()
}

#[test]
fn samples_sent_are_played_after_the_delay() {
    for law in [Law::Mu, Law::A] {
        // Numbers and timestamps wrap during the test.
        let mut sender = Sender::new(law, [7, 0xffff_fffa, 0_u32.wrapping_sub(1_000)]);
        let mut receiver = Receiver::new(320);
        let mut received = Vec::new();
        let mut now = Instant::from_nanos(99);
        for packet in packets(&mut sender, 50) {
            let outcome = receiver.packet(now, &packet);
            assert_eq!(outcome.is_err(), received.is_empty(), "the first is not believed yet");
            let mut samples = [0; SAMPLES_PER_PACKET];
            receiver.play(&mut samples);
            received.extend(samples);
            now += TWENTY_MS;
        }
        // The second packet is the first to be accepted, and plays 320 samples after it came.
        let begins = 160 + 320;
        assert!(received[..begins].iter().all(|&sample| sample == 0));
        assert_eq!(received[begins..], ramp(160, received.len() - begins, law));
        let stats = receiver.stats();
        assert_eq!((stats.accepted, stats.refused, stats.lost, stats.jitter), (49, 1, 0, 0));
        assert_eq!(stats.played.concealed, 0);
    }
}

#[test]
fn loss_and_reordering_cost_what_was_lost_and_nothing_else() {
    for seed in 0..300 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut sender = Sender::new(Law::Mu, [rng.next_u32(), rng.next_u32(), rng.next_u32()]);
        let mut receiver = Receiver::new(800);
        let all = packets(&mut sender, 200);
        // After the first two: a tenth lost, the others up to 60 ms late, some of them duplicated.
        let mut arrivals = Vec::new();
        let mut lost = 0;
        for (number, packet) in all.iter().enumerate() {
            let due = TWENTY_MS * number as u64;
            if number < 2 {
                arrivals.push((due, number, packet));
            } else if number + 1 < all.len() && rng.next_u32().is_multiple_of(10) {
                lost += 1;
            } else {
                for _ in 0..=u32::from(rng.next_u32().is_multiple_of(10)) {
                    let late = Duration::from_millis(u64::from(rng.next_u32() % 60));
                    arrivals.push((due + late, number, packet));
                }
            }
        }
        arrivals.sort();
        let start = Instant::from_nanos(1);
        let mut arrivals = arrivals.into_iter().peekable();
        let mut samples = [0; 40];
        for step in 0..210 * 4 {
            let now = Duration::from_millis(5) * step;
            while let Some((due, _, packet)) = arrivals.next_if(|&(due, ..)| due <= now) {
                let _ = receiver.packet(start + due, packet);
            }
            receiver.play(&mut samples);
        }
        let stats = receiver.stats();
        assert_eq!(stats.played.real, 160 * (199 - lost), "seed {seed}");
        assert_eq!((stats.played.late, stats.played.slips), (0, 0));
        assert!(stats.jitter > 20 && stats.jitter < 480, "{}", stats.jitter);
    }
}

#[test]
fn strangers_and_nonsense_are_refused_and_the_stream_goes_on() {
    let mut sender = Sender::new(Law::A, [1, 2, 3]);
    let mut stranger = Sender::new(Law::A, [9, 40_000, 5]);
    let mut receiver = Receiver::new(160);
    let mut now = Instant::from_nanos(5);
    for (packet, strange) in packets(&mut sender, 20).iter().zip(packets(&mut stranger, 20)) {
        let _ = receiver.packet(now, packet);
        let refused = receiver.packet(now, &strange);
        assert_eq!(refused, Err(Refused::Source { found: 9, expected: 1 }));
        let mut video = packet.clone();
        video[1] = 96;
        assert_eq!(receiver.packet(now, &video), Err(Refused::PayloadType(96)));
        let short = receiver.packet(now, &packet[..5]);
        assert_eq!(short, Err(Refused::Packet(PacketError::Short { len: 5, needed: 12 })));
        now += TWENTY_MS;
    }
    assert_eq!(receiver.stats().accepted, 19);
    assert_eq!(receiver.stats().lost, 0);
    // The source falls silent; after a while another may replace it.
    now += Duration::from_secs(2);
    let more = packets(&mut stranger, 3);
    assert_eq!(receiver.packet(now, &more[0]), Err(Refused::NotBelieved(40_020)));
    assert_eq!(receiver.packet(now, &more[1]), Ok(()));
    assert_eq!(receiver.last_received(), Some(now));
}

#[test]
fn garbage_is_refused_or_harmless() {
    let mut receiver = Receiver::new(160);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut now = Instant::from_nanos(5);
    let mut samples = [0; 33];
    for _ in 0..100_000 {
        let mut bytes = [0; 40];
        rng.fill_bytes(&mut bytes);
        bytes[0] = bytes[0] & 0x33 | 0x80;
        bytes[1] &= 0x88;
        bytes[8..12].fill(1);
        let _ = receiver.packet(now, &bytes[..rng.next_u32() as usize % 41]);
        receiver.play(&mut samples);
        now += Duration::from_micros(u64::from(rng.next_u32() % 30_000));
    }
    let stats = receiver.stats();
    assert_eq!(stats.accepted + stats.refused, 100_000);
    let played = stats.played;
    assert_eq!(played.real + played.concealed + played.waiting, 3_300_000);
}
