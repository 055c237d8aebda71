use punctual_linux::clock;
use punctual_linux::memfd::{Others, Writable};
use punctual_model::{Duration, Instant};
use punctual_ring::frames::{Corrupt, OwnWords as _, Wake};

use super::*;
use crate::client::{DrainError, SendError, Sending};

fn pair() -> (Sending, Taker) {
    sends(geometry())
}

#[test]
fn messages_of_every_length_come_as_they_were_sent() {
    let (mut sending, mut taker) = pair();
    for n in 0..500 {
        let message = content(n, geometry());
        sending.try_send(&message).expect("room");
        assert_eq!((taker.take(), sending.unreleased()), (Some(message), Ok(1)));
        taker.release(1);
        assert_eq!(sending.unreleased(), Ok(0));
    }
}

#[test]
fn a_message_that_is_too_long_is_refused_and_sends_nothing() {
    let (mut sending, mut taker) = pair();
    let refused = sending.send(&[0; 101]);
    assert_eq!(refused, Err(SendError::TooLong { bytes: 101, most: 100 }));
    assert_eq!(taker.take(), None);
}

#[test]
fn without_room_a_try_is_refused_and_a_wait_ends_in_time() {
    let (mut sending, mut taker) = pair();
    for n in 0..4 {
        assert_eq!(sending.has_room(), Ok(true));
        sending.try_send(&[n]).expect("room");
    }
    assert_eq!(sending.has_room(), Ok(false));
    assert_eq!(sending.try_send(b"fifth"), Err(SendError::Full { slots: 4 }));
    let until = clock::now() + Duration::from_millis(5);
    assert_eq!(sending.send_until(b"fifth", until), Err(SendError::TimedOut { slots: 4 }));
    assert!(clock::now() >= until);
    // A refused message is not sent: the first to come is the first that was sent.
    assert_eq!((taker.take(), taker.takes.held()), (Some(vec![0]), 1));
    taker.release(1);
    assert_eq!(sending.send_until(b"fifth", Instant::ZERO), Ok(()));
}

#[test]
fn withheld_slots_are_no_room() {
    let (mut sending, mut taker) = pair();
    // Room that was seen before may still be used, so it is used up first.
    for n in 0..4 {
        sending.try_send(&[n]).expect("room");
        assert!(taker.take().is_some());
    }
    assert_eq!(taker.takes.withhold(4), Wake::Nobody);
    taker.release(4);
    assert_eq!(sending.try_send(b"none"), Err(SendError::Full { slots: 4 }));
    assert_eq!((sending.unreleased(), sending.has_room()), (Ok(0), Ok(false)));
    assert_eq!(taker.takes.withhold(0), Wake::Nobody);
    assert_eq!(sending.try_send(b"one"), Ok(()));
}

#[test]
fn a_batch_is_shown_together_and_rings_once() {
    let (mut sending, mut taker) = pair();
    assert_eq!(taker.takes.rest(), Ok(Rest::Sleep));
    let mut batch = sending.batch();
    for word in [&b"ab"[..], b"cde"] {
        let mut slot = batch.claim().expect("sound").expect("room");
        assert_eq!(slot.capacity(), 100);
        slot.write(0, &word[..1]);
        slot.write(1, &word[1..]);
        slot.push(word.len());
    }
    // A slot that is dropped sends nothing.
    drop(batch.claim().expect("sound").expect("room"));
    assert!(!is_rung(&taker.doorbell, Instant::ZERO));
    assert_eq!(taker.takes.rest(), Ok(Rest::Sleep), "nothing is seen before it is published");
    batch.publish();
    assert!(is_rung(&taker.doorbell, patience()));
    taker.takes.rise();
    assert_eq!(taker.take(), Some(b"ab".to_vec()));
    assert_eq!(taker.take(), Some(b"cde".to_vec()));
    assert_eq!(taker.take(), None);
    assert!(!is_rung(&taker.doorbell, Instant::ZERO), "one ring for two messages");
}

#[test]
fn a_batch_that_was_leaked_is_published_before_the_sleep() {
    let (mut sending, mut taker) = pair();
    let mut batch = sending.batch();
    batch.claim().expect("sound").expect("room").push(0);
    std::mem::forget(batch);
    assert_eq!(taker.take(), None);
    assert_eq!(sending.wait_until(Instant::ZERO), Ok(()));
    assert_eq!(taker.take(), Some(vec![]));
}

#[test]
fn a_gone_server_is_reported_and_nothing_is_sent_after() {
    let (mut sending, taker) = pair();
    sending.try_send(b"kept").expect("room");
    drop(taker);
    // The server does not sleep, so it is not rung for: its end is only noticed when the sender
    // would wait.
    for _ in 0..3 {
        sending.try_send(b"kept").expect("room");
    }
    assert_eq!(sending.send(b"lost"), Err(SendError::ServerGone));
    assert_eq!(sending.try_send(b"lost"), Err(SendError::ServerGone));
    assert_eq!(sending.has_room(), Err(SendError::ServerGone));
    assert_eq!(sending.drain_until(patience()), Err(DrainError::ServerGone { left: 4 }));
    assert_eq!(sending.unreleased(), Ok(4));
}

#[test]
fn a_client_that_never_waits_learns_of_the_servers_end_too() {
    let (mut sending, taker) = pair();
    drop(taker);
    let refused = (0..).find_map(|_| sending.try_send(b"one").err());
    assert_eq!((refused, sending.unreleased()), (Some(SendError::ServerGone), Ok(4)));
}

#[test]
fn a_message_whose_ring_was_lost_is_sent_once() {
    let (mut sending, mut taker) = pair();
    assert_eq!(taker.takes.rest(), Ok(Rest::Sleep));
    drop(taker);
    assert_eq!(sending.try_send(b"in the queue"), Ok(()));
    assert_eq!(sending.try_send(b"not in it"), Err(SendError::ServerGone));
    assert_eq!(sending.unreleased(), Ok(1));
}

#[test]
fn draining_waits_until_all_has_left() {
    let (mut sending, mut taker) = pair();
    assert_eq!(sending.drain_until(Instant::ZERO), Ok(()), "nothing to wait for");
    for n in 0..3 {
        sending.try_send(&[n]).expect("room");
        taker.take();
    }
    taker.release(1);
    let late = clock::now() + Duration::from_millis(2);
    assert_eq!(sending.drain_until(late), Err(DrainError::TimedOut { left: 2 }));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            clock::sleep(Duration::from_millis(5));
            taker.release(2);
        });
        assert_eq!(sending.drain_until(patience()), Ok(()));
    });
    assert_eq!(sending.unreleased(), Ok(0));
}

#[test]
fn a_page_that_makes_no_sense_ends_the_channel() {
    // This server is dishonest.
    let (made, passed) = Made::<Takes>::new(geometry(), 0).expect("memory");
    let bytes = Geometry::CONSUMER_BYTES;
    let (page, theirs) = Writable::create("page", bytes, Others::Write).expect("memory");
    let passed = Passed { page: theirs, ..passed };
    let mut sending = Sending::map(passed, geometry()).expect("as made");
    sending.try_send(b"one").expect("room");
    // The first word counts the released messages: more than were ever sent.
    page.store(0, 9);
    let corrupt = Corrupt::Released { released: 9, least: 0, most: 1 };
    assert_eq!(sending.unreleased(), Err(corrupt));
    assert_eq!(sending.try_send(b"two"), Err(corrupt.into()));
    assert_eq!(sending.wait_until(patience()), Err(corrupt.into()));
    assert_eq!(sending.drain_until(patience()), Err(corrupt.into()));
    assert_eq!(sending.before_poll(), Err(corrupt.into()));
    drop(made);
}
