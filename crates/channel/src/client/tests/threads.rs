//! Tests client and server in threads of their own, which fall asleep and are woken.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::client::ReceiveError;

const MESSAGES: u64 = 3_000;

/// Pauses now and then, so that the other side runs out of messages or room.
fn dawdle(random: &mut ChaCha8Rng) {
    match random.random_range(0..200) {
        0 => clock::sleep(Duration::from_micros(random.random_range(1..200))),
        1..20 => std::thread::yield_now(),
        _ => {}
    }
}

#[test]
fn all_that_is_sent_comes_in_order_and_once() {
    for (seed, slots) in [1, 2, 4, 16].into_iter().enumerate() {
        let geometry = Geometry::new(slots, 100).expect("valid");
        let (mut sending, mut taker) = sends(geometry);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut random = ChaCha8Rng::seed_from_u64(seed as u64);
                for n in 0..MESSAGES {
                    dawdle(&mut random);
                    let message = content(n, geometry);
                    sending.send_until(&message, patience()).expect("no wake-up is lost");
                }
                sending.drain_until(patience()).expect("all leave");
            });
            let mut random = ChaCha8Rng::seed_from_u64(1_000 + seed as u64);
            for n in 0..MESSAGES {
                dawdle(&mut random);
                assert_eq!(taker.next(), content(n, geometry), "seed {seed}, message {n}");
            }
            assert_eq!(taker.take(), None);
        });
    }
}

#[test]
fn all_that_is_put_in_is_received_in_order_and_once() {
    for (seed, slots) in [1, 2, 4, 16].into_iter().enumerate() {
        let geometry = Geometry::new(slots, 100).expect("valid");
        let (mut receiving, mut putter) = receives(geometry);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut random = ChaCha8Rng::seed_from_u64(2_000 + seed as u64);
                for n in 0..MESSAGES {
                    dawdle(&mut random);
                    putter.put_waiting(&content(n, geometry), n);
                }
            });
            let mut random = ChaCha8Rng::seed_from_u64(3_000 + seed as u64);
            let mut into = [0; 100];
            for n in 0..MESSAGES {
                dawdle(&mut random);
                let got = receiving.receive_until(&mut into, patience()).expect("none is lost");
                assert_eq!((got.number, got.arrived.as_nanos()), (n, n), "seed {seed}");
                assert_eq!(into[..got.bytes], content(n, geometry), "seed {seed}");
            }
            assert_eq!(receiving.receive(&mut into), Err(ReceiveError::ServerGone));
        });
    }
}
