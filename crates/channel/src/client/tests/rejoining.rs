//! Tests servers that end midway, and their successors.

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::client::{ReceiveError, SendError};

#[test]
fn unsent_messages_go_on_with_the_next_server() {
    for seed in 0..50 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (mut sending, first) = sends(geometry());
        let mut taker = Some(first);
        let (mut sent, mut released) = (0, 0);
        for _ in 0..40 {
            let mut server = taker.take().unwrap_or_else(|| {
                // Also sent before there is a server to take it.
                if sending.try_send(&content(sent, geometry())) == Ok(()) {
                    sent += 1;
                }
                let taker = Taker::of(rejoined(&mut sending, geometry()));
                assert_eq!(taker.takes.released(), released, "the numbers go on");
                taker
            });
            for _ in 0..random.random_range(0..10) {
                if sending.try_send(&content(sent, geometry())) == Ok(()) {
                    sent += 1;
                }
                // A message that was taken but not released is taken again.
                match server.take() {
                    Some(message) => {
                        let n = released + server.takes.held() - 1;
                        assert_eq!(message, content(n, geometry()), "seed {seed}");
                    }
                    None => assert_eq!(released + server.takes.held(), sent, "seed {seed}"),
                }
                let some = random.random_range(0..=server.takes.held());
                server.release(some);
                released += some;
            }
            match random.next_u32() % 3 {
                0 => taker = Some(server),
                // It dies awake.
                1 => drop(server),
                _ => {
                    // It dies asleep, if it has nothing to do.
                    let _ = server.takes.rest().expect("honest");
                    drop(server);
                }
            }
        }
        assert!(sent > 40, "seed {seed}: {sent}");
    }
}

#[test]
fn a_sender_asleep_for_room_goes_on_with_the_next_server() {
    let (mut sending, taker) = sends(geometry());
    for n in 0..4 {
        sending.send(&content(n, geometry())).expect("room");
    }
    std::thread::scope(|scope| {
        scope.spawn(move || {
            clock::sleep(Duration::from_millis(5));
            drop(taker);
        });
        assert_eq!(sending.send(b"fifth"), Err(SendError::ServerGone));
        let mut taker = Taker::of(rejoined(&mut sending, geometry()));
        let sender = scope.spawn(move || sending.send(&content(4, geometry())));
        let all: Vec<_> = (0..5).map(|_| taker.next()).collect();
        assert_eq!(sender.join().expect("no panic"), Ok(()));
        assert_eq!(all, (0..5).map(|n| content(n, geometry())).collect::<Vec<_>>());
    });
}

#[test]
fn a_receiver_goes_on_with_the_next_server() {
    let (mut receiving, mut putter) = receives(geometry());
    let (mut put, mut got, mut into) = (0, 0, [0; 100]);
    for server in 0..5 {
        while putter.put(&content(put, geometry()), put) {
            put += 1;
        }
        // Some are received before the server ends and some after, one of them seen before.
        for _ in 0..server {
            let received = receiving.try_receive(&mut into).expect("there are four");
            assert_eq!(into[..received.bytes], content(got, geometry()));
            assert_eq!((received.number, received.arrived.as_nanos()), (got, got));
            got += 1;
        }
        let seen = receiving.message().expect("sound").map(|message| message.number());
        assert_eq!(seen, (got < put).then_some(got));
        drop(putter);
        putter = Putter::of(rejoined(&mut receiving, geometry()));
    }
    drop(putter);
    while let Ok(received) = receiving.try_receive(&mut into) {
        assert_eq!(into[..received.bytes], content(got, geometry()));
        got += 1;
    }
    assert_eq!(receiving.try_receive(&mut into), Err(ReceiveError::ServerGone));
    // A queue of each server was full, and all messages came.
    assert_eq!((got, put), (put, 5 * 4));
}
