//! Tests the order of an event loop.

use rustix::event::Timespec;

use super::*;
use crate::client::{ReceiveError, SendError};

/// Returns whether it was readable within `milliseconds`.
fn readable(of: &impl std::os::fd::AsFd, milliseconds: i64) -> bool {
    let time = Timespec { tv_sec: milliseconds / 1_000, tv_nsec: milliseconds % 1_000 * 1_000_000 };
    poll(&mut [PollFd::new(of, PollFlags::IN)], Some(&time)).expect("can be polled") == 1
}

#[test]
fn a_receiver_that_polls_is_rung_for() {
    let (mut receiving, mut putter) = receives(geometry());
    for n in 0..10 {
        assert_eq!(receiving.before_poll(), Ok(Rest::Sleep));
        assert!(!readable(&receiving, 0));
        assert!(putter.put(b"m", n) && putter.put(b"m", n));
        assert!(readable(&receiving, 20_000));
        receiving.after_poll().expect("a bell");
        assert!(!readable(&receiving, 0), "silenced");
        assert_eq!(receiving.before_poll(), Ok(Rest::Work));
        assert_eq!(receiving.try_receive(&mut [0]).map(|received| received.number), Ok(2 * n));
        assert_eq!(receiving.try_receive(&mut [0]).map(|received| received.number), Ok(2 * n + 1));
        assert_eq!(receiving.try_receive(&mut [0]), Err(ReceiveError::Empty));
    }
    // Without the last step: the next call takes it.
    assert_eq!(receiving.before_poll(), Ok(Rest::Sleep));
    assert_eq!(receiving.try_receive(&mut [0]), Err(ReceiveError::Empty));
    assert!(putter.put(b"m", 0));
    assert!(!readable(&receiving, 0), "awake, so nobody rings");
}

#[test]
fn a_sender_that_polls_is_rung_for_when_there_is_room() {
    let (mut sending, mut taker) = sends(geometry());
    assert_eq!(sending.before_poll(), Ok(Rest::Work));
    for n in 0..4 {
        sending.try_send(&[n]).expect("room");
    }
    for n in 0..10 {
        assert_eq!(sending.before_poll(), Ok(Rest::Sleep));
        assert!(!readable(&sending, 0));
        assert!(taker.take().is_some());
        taker.release(1);
        assert!(readable(&sending, 20_000));
        sending.after_poll().expect("a bell");
        sending.try_send(&[n]).expect("room");
        assert_eq!(sending.try_send(&[n]), Err(SendError::Full { slots: 4 }));
    }
}

#[test]
fn a_polling_client_learns_of_the_servers_end() {
    let (mut sending, taker) = sends(geometry());
    for n in 0..4 {
        sending.try_send(&[n]).expect("room");
    }
    assert_eq!(sending.before_poll(), Ok(Rest::Sleep));
    drop(taker);
    assert!(readable(&sending, 20_000));
    sending.after_poll().expect("a bell");
    assert_eq!(sending.before_poll(), Err(SendError::ServerGone));

    let (mut receiving, putter) = receives(geometry());
    assert_eq!(receiving.before_poll(), Ok(Rest::Sleep));
    drop(putter);
    assert!(readable(&receiving, 20_000));
    receiving.after_poll().expect("a bell");
    assert_eq!(receiving.before_poll(), Err(ReceiveError::ServerGone));
}
