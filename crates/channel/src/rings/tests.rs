use std::sync::atomic::Ordering;

use punctual_linux::memfd::{MemfdError, Writable};
use punctual_linux::pass::WaitOutcome;
use punctual_model::Instant;
use punctual_ring::frames::{Corrupt, Geometry, Wake};
use rustix::fs::{FallocateFlags, fallocate};

use super::{Made, Passed, Puts, RingError, Side, Takes, both};
use crate::rings;

fn geometry() -> Geometry {
    Geometry::new(4, 100).expect("valid")
}

fn is_put(puts: &mut Puts, byte: u8) {
    let mut slot = puts.claim().expect("sound").expect("room");
    slot.write(0, &[byte]);
    slot.push(1, 0);
    assert_eq!(puts.publish(), Wake::Nobody);
}

#[test]
fn a_queue_to_the_server_may_begin_at_any_number() {
    for first in [0, 5, u64::MAX] {
        let (made, passed) = Made::<Takes>::new(geometry(), first).expect("memory");
        let mut client: Side<Puts> = rings::map(passed, geometry(), first).expect("as made");
        is_put(&mut client.end, 7);
        made.seal().expect("ours");
        let server = made.freeze().expect("sealed");
        // Messages put in before the server could look are there.
        let frame = server.end.take().expect("sound").expect("published");
        assert_eq!((frame.len(), server.end.released()), (1, first));
        assert_eq!(client.end.unreleased(), Ok(1));
        drop(server);
        assert_eq!(client.bell.wait(Instant::MAX), Ok(WaitOutcome::Closed));
    }
}

#[test]
fn a_queue_to_the_client_may_begin_at_any_number() {
    for first in [0, 5, u64::MAX] {
        let (made, passed) = Made::<Puts>::new(geometry(), first).expect("memory");
        let client: Side<Takes> = rings::map(passed, geometry(), first).expect("as made");
        assert!(client.end.take().expect("sound").is_none(), "before there is a server");
        made.seal().expect("ours");
        let mut server = made.freeze().expect("sealed");
        is_put(&mut server.end, 9);
        assert_eq!(client.end.released(), first);
        let mut byte = [0];
        client.end.take().expect("sound").expect("published").read(0, &mut byte);
        assert_eq!(byte, [9]);
    }
}

#[test]
fn a_queue_that_differs_from_the_made_one_is_refused() {
    // Not sealed: the server does not read it.
    let (made, passed) = Made::<Takes>::new(geometry(), 0).expect("memory");
    let _client: Side<Puts> = rings::map(passed, geometry(), 0).expect("as made");
    let refused = made.freeze().expect_err("not sealed");
    assert!(matches!(refused, RingError::Memory(MemfdError::NotFrozen { .. })), "{refused}");
    // Never written by the client.
    let (made, _passed) = Made::<Takes>::new(geometry(), 0).expect("memory");
    made.seal().expect("ours");
    assert!(matches!(made.freeze().expect_err("of zeroes"), RingError::Queue(_)));
    // The same number of bytes, divided otherwise.
    let (made, passed) = Made::<Takes>::new(geometry(), 0).expect("memory");
    let other = Geometry::new(4, 101).expect("valid");
    let _client: Side<Puts> = rings::map(passed, other, 0).expect("as many bytes");
    made.seal().expect("ours");
    let refused = made.freeze().expect_err("of other messages");
    assert!(matches!(refused, RingError::OtherGeometry { bytes: 101, .. }), "{refused}");
    // The client cannot write the server's own part.
    let (_made, passed) = Made::<Puts>::new(geometry(), 0).expect("memory");
    let refused = rings::map::<Puts>(passed, geometry(), 0).expect_err("the wrong end");
    assert!(matches!(refused, RingError::Memory(MemfdError::ReadOnly)), "{refused}");
    // A queue of another size.
    let (_made, passed) = Made::<Takes>::new(geometry(), 0).expect("memory");
    let larger = Geometry::new(8, 4_000).expect("valid");
    assert!(rings::map::<Puts>(passed, larger, 0).is_err());
    let (_made, passed) = Made::<Takes>::new(geometry(), 0).expect("memory");
    let three = Vec::from(passed.into_descriptors()).into_iter().take(3).collect();
    assert_eq!(Passed::of(three).map_err(|three| three.len()).err(), Some(3));
}

/// Checks that an index beyond the queue is found when the server attaches.
#[test]
fn an_impossible_beginning_is_refused() {
    let (made, passed) = Made::<Takes>::new(geometry(), 10).expect("memory");
    let bytes = geometry().producer_bytes();
    let frames = passed.frames.try_clone().expect("a descriptor");
    let frames = Writable::of(frames, bytes).expect("it is the client's to write");
    let _client: Side<Puts> = rings::map(passed, geometry(), 10).expect("as made");
    // The ninth word counts the published messages.
    frames.words()[8].store(15, Ordering::Relaxed);
    made.seal().expect("ours");
    let refused = made.freeze().expect_err("five of four");
    let corrupt = Corrupt::Pushed { pushed: 15, least: 10, most: 14 };
    assert_eq!(refused, RingError::Queue(corrupt.into()));
}

/// Checks that the client harms only itself by changing its memory between mapping and sealing:
/// pages that it removed are filled with zeroes.
#[test]
fn holes_that_were_punched_before_sealing_are_filled() {
    let geometry = Geometry::new(64, 1_400).expect("valid");
    let (made, passed) = Made::<Takes>::new(geometry, 0).expect("memory");
    let frames = passed.frames.try_clone().expect("a descriptor");
    let mut client: Side<Puts> = rings::map(passed, geometry, 0).expect("as made");
    is_put(&mut client.end, 1);
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let bytes = geometry.producer_bytes() as u64;
    fallocate(&frames, hole, 8_192, bytes - 8_192).expect("not sealed yet");
    let there = || rustix::fs::fstat(&frames).expect("memory").st_blocks * 512;
    assert_eq!(there(), 8_192);
    made.seal().expect("ours");
    let server = made.freeze().expect("sealed");
    assert_eq!(there() as u64, bytes);
    let mut byte = [1];
    server.end.take().expect("sound").expect("published").read(0, &mut byte);
    assert_eq!(byte, [0]);
    let refused = fallocate(&frames, hole, 0, 4_096);
    assert_eq!(refused, Err(rustix::io::Errno::PERM));
}

#[test]
fn both_sides_in_one_process_wake_each_other() {
    let (client, server) = both::<Takes>(geometry()).expect("memory");
    client.doorbell.ring().expect("an eventfd");
    server.bell.ring().expect("the client is there");
    assert_eq!(client.bell.wait(Instant::MAX), Ok(WaitOutcome::Rung));
}
