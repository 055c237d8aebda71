use std::num::NonZeroU16;

use punctual_model::channel::{LinearBounded, Link};
use punctual_model::{Duration, Instant};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::fragment::{Fragments, Limits, Reassembly, Taken};

fn ns(n: u64) -> Instant {
    Instant::from_nanos(n)
}

fn device(queue: u64) -> NullDevice<Vec<(Instant, u32, Vec<u8>)>> {
    let link = Link::new(Duration::from_nanos(10), 1).expect("valid");
    NullDevice::new(link, 100, Duration::from_nanos(queue), Vec::new())
}

fn packet(bytes: &[u8]) -> Packet<'_> {
    Packet { head: &[], piece: Piece::Bytes(bytes) }
}

#[test]
fn the_link_is_busy_for_as_long_as_its_packets_take() {
    let mut device = device(110);
    let (short, long) = ([1; 40], [2; 100]);
    let block = [packet(&short), packet(&long), packet(&short)];
    let taken = device.hand_over(ns(1_000), 3, &block);
    let until = Some(ns(1_050));
    let full = NotTaken::WouldBlock { until };
    assert_eq!(taken, HandedOver { packets: 2, stopped: Some(full) });
    let taken = device.hand_over(ns(1_050), 3, &block[2..]);
    assert_eq!(taken, HandedOver { packets: 1, stopped: None });
    let left: Vec<_> = device.far_end().iter().map(|(at, to, _)| (at.as_nanos(), *to)).collect();
    assert_eq!(left, [(1_050, 3), (1_160, 3), (1_210, 3)]);
    assert_eq!((device.free_at(), device.busy()), (ns(1_210), Duration::from_nanos(210)));
    let large = device.hand_over(ns(2_000), 3, &[packet(&[0; 101])]);
    let stopped = Some(NotTaken::TooLarge { bytes: 101, mtu: 100 });
    assert_eq!(large, HandedOver { packets: 0, stopped });
}

#[test]
fn a_script_loses_holds_back_and_refuses() {
    let mut script = [Fault::None, Fault::Lose, Fault::Hold, Fault::None].into_iter();
    let down = Fault::Refuse(NotTaken::Unreachable);
    let mut faulty = Faulty::new(device(10_000), |_| script.next().unwrap_or(down));
    let bytes: Vec<[u8; 1]> = (0..5).map(|n| [n]).collect();
    let block: Vec<_> = bytes.iter().map(|bytes| packet(bytes)).collect();
    let taken = faulty.hand_over(ns(0), 0, &block);
    assert_eq!(taken, HandedOver { packets: 4, stopped: Some(NotTaken::Unreachable) });
    let order: Vec<u8> = faulty.inner().far_end().iter().map(|(.., bytes)| bytes[0]).collect();
    assert_eq!((order, faulty.lost()), (vec![0, 3, 2], 1));
}

/// Checks that each message arrives complete over a link that loses and reorders, or is counted.
#[test]
fn pieces_over_a_bad_link_are_put_together_or_counted() {
    let fragment_bytes = NonZeroU16::new(20).expect("not zero");
    for seed in 0..50 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut dice = ChaCha8Rng::seed_from_u64(seed + 1_000);
        let mut faulty = Faulty::new(device(1_000_000), move |_| match dice.random_range(0..20) {
            0 => Fault::Lose,
            1..4 => Fault::Hold,
            _ => Fault::None,
        });
        let messages: u64 = 200;
        let mut now = 0;
        for message in 0..messages {
            let length = rng.random_range(1..=120_u32);
            let content: Vec<u8> = (0..length).map(|at| (u64::from(at) + message) as u8).collect();
            let cut = Fragments { fragment_bytes, channel: 1, message, length };
            for piece in cut.within(0..length, None) {
                let head = piece.header.to_bytes();
                let bytes = &content[piece.bytes.start as usize..piece.bytes.end as usize];
                let packet = Packet { head: &head, piece: Piece::Bytes(bytes) };
                let taken = faulty.hand_over(ns(now), 1, &[packet]);
                assert_eq!(taken, HandedOver { packets: 1, stopped: None });
            }
            now += 100_000;
        }
        faulty.let_go(ns(now));
        let spacing = Duration::from_micros(100);
        let mut receiver = Reassembly::new(Limits {
            channel: 1,
            arrivals: LinearBounded::new(1, 120, spacing, 1).expect("valid"),
            delay_bound: spacing,
            least_fragment: fragment_bytes,
        });
        for (at, _, datagram) in faulty.inner().far_end() {
            if let Ok(Taken::Complete(whole)) = receiver.take(*at, datagram) {
                let right = (0..).zip(whole.bytes).all(|(at, b)| (at + whole.number) as u8 == *b);
                assert!(right, "seed {seed}, message {}", whole.number);
            }
        }
        let counts = receiver.counts();
        let accounted = counts.complete + counts.missing + counts.given_up + counts.crowded_out;
        // Messages before the first that came, and after the last, are not seen.
        let open = u64::from(receiver.open());
        assert!(accounted + open <= messages && accounted + open + 20 >= messages, "{counts:?}");
        assert!(counts.complete > 100 && counts.complete < messages, "seed {seed}: {counts:?}");
    }
}
