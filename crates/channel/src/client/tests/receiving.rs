use std::sync::atomic::Ordering;

use punctual_linux::clock;
use punctual_model::{Duration, Instant};
use punctual_ring::frames::Corrupt;

use super::*;
use crate::client::{ReceiveError, Received};

fn pair() -> (Receiving, Putter) {
    receives(geometry())
}

fn received(bytes: usize, number: u64, arrived: u64) -> Received {
    Received { bytes, number, arrived: Instant::from_nanos(arrived) }
}

#[test]
fn messages_of_every_length_come_as_they_were_put_in() {
    let (mut receiving, mut putter) = pair();
    let mut into = [0; 100];
    for n in 0..500 {
        let message = content(n, geometry());
        assert!(putter.put(&message, 1_000 + n));
        let got = receiving.try_receive(&mut into);
        assert_eq!(got, Ok(received(message.len(), n, 1_000 + n)));
        assert_eq!(into[..message.len()], message);
    }
}

#[test]
fn any_part_of_a_message_can_be_read_where_it_lies() {
    let geometry = Geometry::new(4, 1_000).expect("valid");
    let (mut receiving, mut putter) = receives(geometry);
    // The second slot is used, so that the message does not begin at the start of the memory.
    assert!(putter.put(b"first", 0));
    receiving.message().expect("sound").expect("there").release();
    let content: Vec<u8> = (0..300_u32).map(|at| (at * 37 % 251) as u8).collect();
    assert!(putter.put(&content, 0));
    let message = receiving.message().expect("sound").expect("there");
    assert_eq!(message.len(), 300);
    for from in (0..40).chain([127, 128, 129, 299, 300]) {
        for length in (0..40).chain([127, 128, 129, 256, 260, 300]) {
            if from + length > 300 {
                continue;
            }
            let mut part = vec![0; length];
            message.read(from, &mut part);
            assert_eq!(part, content[from..from + length], "{length} bytes from {from}");
        }
    }
}

#[test]
#[should_panic(expected = "beyond the message")]
fn nothing_is_read_beyond_a_message() {
    let (mut receiving, mut putter) = pair();
    assert!(putter.put(b"abc", 0));
    receiving.message().expect("sound").expect("there").read(1, &mut [0; 3]);
}

#[test]
fn a_message_is_the_next_one_until_it_is_released() {
    let (mut receiving, mut putter) = pair();
    for n in 0..4 {
        assert!(putter.put(&[n], u64::from(n)));
    }
    for _ in 0..3 {
        let message = receiving.message().expect("sound").expect("there");
        assert_eq!((message.number(), message.arrived(), message.len()), (0, Instant::ZERO, 1));
    }
    assert!(!putter.put(b"no room", 0));
    receiving.message().expect("sound").expect("there").release();
    assert!(putter.put(b"room", 0));
    assert_eq!(receiving.try_receive(&mut [0]), Ok(received(1, 1, 1)));
}

#[test]
fn a_place_that_is_too_small_loses_nothing() {
    let (mut receiving, mut putter) = pair();
    assert!(putter.put(b"twelve bytes", 7));
    assert!(putter.put(b"next", 8));
    let small = ReceiveError::TooSmall { number: 0, bytes: 12, room: 5 };
    let mut into = [0; 100];
    for _ in 0..2 {
        assert_eq!(receiving.receive(&mut into[..5]), Err(small));
        assert_eq!(into[..5], [0; 5]);
    }
    assert_eq!(receiving.receive(&mut into), Ok(received(12, 0, 7)));
    assert_eq!(&into[..12], b"twelve bytes");
    assert_eq!(receiving.receive(&mut into), Ok(received(4, 1, 8)));
}

#[test]
fn with_nothing_there_a_try_is_refused_and_a_wait_ends_in_time() {
    let (mut receiving, mut putter) = pair();
    assert_eq!(receiving.try_receive(&mut []), Err(ReceiveError::Empty));
    let until = clock::now() + Duration::from_millis(5);
    assert_eq!(receiving.receive_until(&mut [], until), Err(ReceiveError::TimedOut));
    assert!(clock::now() >= until);
    assert!(putter.put(b"", 1));
    assert_eq!(receiving.receive_until(&mut [], Instant::ZERO), Ok(received(0, 0, 1)));
}

#[test]
fn messages_of_an_ended_server_are_received_first() {
    let (mut receiving, mut putter) = pair();
    assert!(putter.put(b"a", 0) && putter.put(b"b", 0) && putter.put(b"c", 0));
    drop(putter);
    assert_eq!(receiving.receive(&mut [0]), Ok(received(1, 0, 0)));
    assert_eq!(receiving.before_poll(), Ok(Rest::Work));
    receiving.after_poll().expect("a bell");
    assert_eq!(receiving.try_receive(&mut [0]), Ok(received(1, 1, 0)));
    assert_eq!(receiving.receive(&mut [0]), Ok(received(1, 2, 0)));
    assert_eq!(receiving.try_receive(&mut [0]), Err(ReceiveError::ServerGone));
    assert_eq!(receiving.receive(&mut [0]), Err(ReceiveError::ServerGone));
    assert_eq!(receiving.before_poll(), Err(ReceiveError::ServerGone));
}

#[test]
fn memory_that_makes_no_sense_ends_the_channel() {
    let (mut receiving, mut putter) = pair();
    // The ninth word counts the published messages: more than there are slots.
    let scribble = |putter: &mut Putter, pushed| {
        let slot = putter.puts.claim().expect("honest").expect("room");
        slot.memory().words()[8].store(pushed, Ordering::Relaxed);
    };
    scribble(&mut putter, 5);
    let corrupt = Corrupt::Pushed { pushed: 5, least: 0, most: 4 };
    assert_eq!(receiving.try_receive(&mut []), Err(corrupt.into()));
    scribble(&mut putter, 1);
    assert_eq!(receiving.receive(&mut []), Err(corrupt.into()), "for ever");
    assert_eq!(receiving.before_poll(), Err(corrupt.into()));
}
