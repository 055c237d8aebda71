use std::num::NonZeroU16;

use punctual_model::channel::LinearBounded;
use punctual_model::{Duration, Instant};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::oracle::{Oracle, Outcome};
use super::*;

fn ns(n: u64) -> Instant {
    Instant::from_nanos(n)
}

fn limits(burst: u32) -> Limits {
    Limits {
        channel: 5,
        arrivals: LinearBounded::new(1, 100, Duration::from_millis(1), burst).expect("valid"),
        delay_bound: Duration::from_millis(2),
        least_fragment: NonZeroU16::new(8).expect("not zero"),
    }
}

/// Returns the content of a message, whose bytes depend on number and place.
fn content(message: u64, length: u32) -> Vec<u8> {
    (0..length).map(|at| (message as u8).wrapping_mul(31).wrapping_add(at as u8)).collect()
}

fn pieces(message: u64, length: u32, fragment_bytes: u16) -> Vec<Vec<u8>> {
    let fragment_bytes = NonZeroU16::new(fragment_bytes).expect("not zero");
    let bytes = content(message, length);
    Fragments { fragment_bytes, channel: 5, message, length }
        .within(0..length, Some(ns(1 + message % 1_000)))
        .map(|Fragment { header, bytes: at }| {
            [&header.to_bytes()[..], &bytes[at.start as usize..at.end as usize]].concat()
        })
        .collect()
}

fn outcome(taken: Result<Taken<'_>, Refused>) -> Outcome {
    match taken {
        Ok(Taken::Complete(message)) => Outcome::Complete(message.number, message.bytes.to_vec()),
        Ok(Taken::More) => Outcome::More,
        Ok(Taken::Duplicate) => Outcome::Duplicate,
        Err(Refused::Over { .. }) => Outcome::Over,
        Err(_) => Outcome::Refused,
    }
}

#[test]
fn an_incomplete_message_is_given_up_a_delay_bound_after_a_newer_one_is_complete() {
    let mut receiver = Reassembly::new(limits(2));
    let (old, new) = (pieces(0, 20, 10), pieces(1, 20, 10));
    assert_eq!(receiver.take(ns(0), &old[0]), Ok(Taken::More));
    assert_eq!(receiver.next_give_up(), None);
    assert_eq!(receiver.take(ns(10), &new[1]), Ok(Taken::More));
    assert_eq!(outcome(receiver.take(ns(20), &new[0])), Outcome::Complete(1, content(1, 20)));
    assert_eq!(receiver.next_give_up(), Some(ns(2_000_020)));
    receiver.give_up(ns(2_000_019));
    assert_eq!((receiver.counts().given_up, receiver.open()), (0, 1));
    receiver.give_up(ns(2_000_020));
    assert_eq!((receiver.counts().given_up, receiver.open()), (1, 0));
    let over = Refused::Over { message: 0, newest: 1 };
    assert_eq!(receiver.take(ns(2_000_021), &old[1]), Err(over));
    assert_eq!(
        Counts { complete: 1, given_up: 1, over: 1, ..Counts::default() },
        receiver.counts()
    );
}

#[test]
fn the_stamp_is_that_of_the_first_piece() {
    let mut receiver = Reassembly::new(limits(1));
    let mut wire = pieces(9, 30, 10);
    for (piece, stamp) in wire.iter_mut().zip([40_u64, 20, 30]) {
        piece[24..32].copy_from_slice(&stamp.to_be_bytes());
    }
    for piece in &wire[..2] {
        assert_eq!(receiver.take(ns(0), piece), Ok(Taken::More));
    }
    let Ok(Taken::Complete(message)) = receiver.take(ns(0), &wire[2]) else { panic!("complete") };
    assert_eq!((message.number, message.first_sent), (9, Some(ns(20))));
}

#[test]
fn lies_are_refused_with_the_reason() {
    let mut receiver = Reassembly::new(limits(1));
    let take = |receiver: &mut Reassembly, header: Header| {
        let piece =
            vec![0; (header.length - header.offset).min(header.fragment_bytes.into()) as usize];
        let datagram = [&header.to_bytes()[..], &piece].concat();
        receiver
            .take(ns(0), &datagram)
            .map(|_| ())
            .map_err(|refused| (refused, refused.to_string()))
    };
    let header =
        Header { fragment_bytes: 10, channel: 5, message: 3, offset: 0, length: 30, sent: None };
    assert_eq!(take(&mut receiver, header), Ok(()));
    let mut lie = |header, wanted| {
        let (refused, text) = take(&mut receiver, header).expect_err("a lie");
        assert_eq!(refused, wanted, "{text}");
    };
    lie(Header { channel: 6, ..header }, Refused::OtherChannel { channel: 6, wanted: 5 });
    lie(Header { length: 101, ..header }, Refused::TooLong { length: 101, most: 100 });
    lie(Header { fragment_bytes: 7, ..header }, Refused::TooFine { fragment_bytes: 7, least: 8 });
    lie(
        Header { offset: 20, length: 29, ..header },
        Refused::Contradicts {
            message: 3,
            length: 29,
            fragment_bytes: 10,
            first_length: 30,
            first_fragment_bytes: 10,
        },
    );
    // A second and the delay bound allow a thousand spacings and a few.
    let far = Refused::TooFarAhead { message: 1_007, ahead: 1_004, most: 1_003 };
    lie(Header { message: 1_007, ..header }, far);
    assert_eq!(receiver.counts().refused, 5);
    assert_eq!((receiver.open(), receiver.counts().complete), (1, 0));
}

#[test]
fn rooms_go_to_the_newest() {
    let mut receiver = Reassembly::new(limits(1));
    for message in [1, 3, 4] {
        assert_eq!(receiver.take(ns(0), &pieces(message, 20, 10)[0]), Ok(Taken::More));
    }
    assert_eq!(receiver.counts().crowded_out, 1);
    let over = Refused::Over { message: 1, newest: 4 };
    assert_eq!(receiver.take(ns(0), &pieces(1, 20, 10)[1]), Err(over));
    let no_room = Refused::NoRoom { message: 2, incomplete: 2 };
    assert_eq!(receiver.take(ns(0), &pieces(2, 20, 10)[0]), Err(no_room));
    // In one fragment it needs no slot.
    let whole = &pieces(2, 8, 8)[0];
    assert_eq!(outcome(receiver.take(ns(0), whole)), Outcome::Complete(2, content(2, 8)));
    // No fragment of messages 5 and 6 came until they were 64 back, nor the rest of 3 and 4.
    assert_eq!(receiver.take(ns(0), &pieces(70, 20, 10)[0]), Ok(Taken::More));
    let counts = receiver.counts();
    assert_eq!((counts.crowded_out, counts.missing), (3, 2));
}

#[test]
fn a_sender_that_began_again_is_believed_after_a_silence() {
    let mut receiver = Reassembly::new(limits(1));
    let whole = |message| pieces(message, 8, 8).remove(0);
    let second = 1_000_000_000;
    for message in 1_000..1_100 {
        assert!(matches!(receiver.take(ns(0), &whole(message)), Ok(Taken::Complete(_))));
    }
    assert_eq!(receiver.take(ns(0), &pieces(1_100, 9, 8)[0]), Ok(Taken::More));
    let quiet = second + 4_000_000;
    assert!(matches!(receiver.take(ns(quiet - 1), &whole(0)), Err(Refused::Over { .. })));
    assert!(matches!(receiver.take(ns(quiet), &whole(0)), Ok(Taken::Complete(_))));
    assert_eq!((receiver.counts().restarts, receiver.counts().cut_off), (1, 1));
    assert!(matches!(receiver.take(ns(quiet), &whole(1)), Ok(Taken::Complete(_))));
    // Numbers may also jump forward, up to the largest.
    let last = whole(u64::MAX);
    assert!(matches!(receiver.take(ns(quiet), &last), Err(Refused::TooFarAhead { .. })));
    assert!(matches!(receiver.take(ns(2 * quiet), &last), Ok(Taken::Complete(_))));
}

#[test]
fn memory_is_as_announced() {
    // Two messages of 100 bytes, and a bit for each of 13 fragments.
    assert_eq!(limits(1).memory(), 2 * (100 + 8));
    assert_eq!(limits(u32::MAX).memory(), 64 * 108);
    let whole = Limits { least_fragment: NonZeroU16::new(100).expect("not zero"), ..limits(9) };
    assert_eq!(whole.memory(), 0);
    let mut receiver = Reassembly::new(whole);
    assert!(matches!(receiver.take(ns(0), &pieces(0, 100, 100)[0]), Ok(Taken::Complete(_))));
    let fine = Refused::TooFine { fragment_bytes: 99, least: 100 };
    assert_eq!(receiver.take(ns(0), &pieces(1, 100, 99)[0]), Err(fine));
}

/// Compares with the oracle over a network that loses, repeats and reorders, and a forger of
/// headers.
#[test]
fn messages_are_put_together_as_from_a_map_of_bytes() {
    let mut totals = Counts::default();
    for seed in 0..600 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let burst = if rng.random_bool(0.1) { 80 } else { rng.random_range(1..4) };
        let limits = limits(burst);
        let mut receiver = Reassembly::new(limits);
        let mut oracle = Oracle::new(limits);
        let (loss, forged) = (rng.random_range(0.0..0.3), rng.random_range(0.0..0.2));
        let reach = rng.random_range(1..30);
        let mut now = 0;
        let mut message = rng.random_range(0..100_u64);
        let mut under_way: Vec<Vec<u8>> = Vec::new();
        for _ in 0..120 {
            if rng.random_bool(0.02) {
                // A gap in the numbers, or a sender that begins again.
                message = match rng.random_range(0..3) {
                    0 => message + rng.random_range(1..150),
                    1 => rng.random_range(0..100),
                    _ => message + 5_000,
                };
                now += rng.random_range(0..2_000_000_000_u64);
            }
            let cut = rng.random_range(8..40);
            under_way.extend(pieces(message, rng.random_range(1..=100), cut));
            message += 1;
            if under_way.len() < reach {
                continue;
            }
            under_way.shuffle(&mut rng);
            for _ in 0..rng.random_range(0..=under_way.len()) {
                let mut datagram = under_way.pop().expect("some are left");
                if rng.random_bool(loss) {
                    continue;
                }
                if rng.random_bool(0.1) {
                    under_way.insert(0, datagram.clone());
                }
                if rng.random_bool(forged) {
                    let at = rng.random_range(2..24);
                    datagram[at] = rng.random_range(0..40);
                }
                now += rng.random_range(0..400_000);
                let wanted = match Header::read(&datagram) {
                    Ok((header, piece)) => oracle.take(now, &header, piece),
                    Err(_) => {
                        // Time passes all the same.
                        let nobody = Header {
                            fragment_bytes: 0,
                            channel: 0,
                            message: 0,
                            offset: 0,
                            length: 0,
                            sent: None,
                        };
                        oracle.take(now, &nobody, &[])
                    }
                };
                assert_eq!(outcome(receiver.take(ns(now), &datagram)), wanted, "seed {seed}");
                assert_eq!(receiver.counts(), oracle.counts, "seed {seed}");
            }
        }
        let counts = receiver.counts();
        totals.complete += counts.complete;
        totals.missing += counts.missing;
        totals.given_up += counts.given_up;
        totals.crowded_out += counts.crowded_out;
        totals.cut_off += counts.cut_off;
        totals.duplicates += counts.duplicates;
        totals.over += counts.over;
        totals.refused += counts.refused;
        totals.restarts += counts.restarts;
    }
    println!("{totals:?}");
    // Each rule was met often.
    let Counts { complete, missing, given_up, crowded_out, cut_off, .. } = totals;
    let Counts { duplicates, over, refused, restarts, .. } = totals;
    for (seen, least) in [
        (complete, 5_000),
        (missing, 1_000),
        (given_up, 1_000),
        (crowded_out, 500),
        (cut_off, 5),
        (duplicates, 500),
        (over, 500),
        (refused, 500),
        (restarts, 50),
    ] {
        assert!(seen > least, "{seen} of {least}: {totals:?}");
    }
}
