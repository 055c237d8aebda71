//! Tests that impossible memory is refused.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::geometry::{DESCRIPTOR, DESCRIPTORS, consumer, producer};
use super::tests::{memories, push, queue, zeroes};
use super::{AttachError, Consumer, Corrupt, Geometry, GeometryError, Producer, Wake};

#[test]
fn what_cannot_be_is_refused_for_ever() {
    let (mut producer, mut consumer) = queue(4, 8);
    let (own, other) = (Arc::clone(producer.own()), Arc::clone(consumer.own()));
    assert!(push(&mut producer, b"a", 0) && push(&mut producer, b"b", 0));
    assert_eq!(producer.publish(), Wake::Nobody);

    // Released: beyond what was published, then back again, which comes too late.
    other[consumer::RELEASED].store(3, Ordering::Relaxed);
    let corrupt = Corrupt::Released { released: 3, least: 0, most: 2 };
    assert_eq!(producer.unreleased(), Err(corrupt));
    other[consumer::RELEASED].store(0, Ordering::Relaxed);
    assert_eq!(producer.rest(), Err(corrupt));

    // A length.
    own[DESCRIPTORS + DESCRIPTOR].store(9, Ordering::Relaxed);
    assert!(consumer.take().expect("the first is good").is_some());
    let corrupt = Corrupt::Length { index: 1, length: 9, max_message: 8 };
    assert_eq!(consumer.take().expect_err("too long"), corrupt);
    own[DESCRIPTORS + DESCRIPTOR].store(8, Ordering::Relaxed);
    assert_eq!(consumer.take().expect_err("ended"), corrupt);
    assert_eq!(consumer.rest(), Err(corrupt));
    assert_eq!(consumer.held(), 1);
}

#[test]
fn an_index_that_goes_back_or_too_far_is_refused() {
    for (pushed, least, most) in [(5, 2, 4), (1, 2, 4), (u64::MAX, 2, 4), (1 << 63, 2, 4)] {
        let (mut producer, consumer) = queue(4, 8);
        assert!(push(&mut producer, b"a", 0) && push(&mut producer, b"b", 0));
        assert_eq!(producer.publish(), Wake::Nobody);
        assert!(consumer.take().expect("good").is_some());
        assert!(consumer.take().expect("good").is_some());
        producer.own()[producer::PUSHED].store(pushed, Ordering::Relaxed);
        let found = consumer.take().expect_err("impossible");
        assert_eq!(found, Corrupt::Pushed { pushed, least, most });
    }
}

#[test]
fn memory_that_is_no_queue_is_refused() {
    let geometry = Geometry::new(4, 8).expect("a good one");
    let attach = |words: &[(usize, u64)], bytes: usize| {
        let (own, other) = (zeroes(bytes), zeroes(Geometry::CONSUMER_BYTES));
        if bytes == geometry.producer_bytes() {
            let _ = Producer::create(geometry, &own, &other).expect("zeroes");
        }
        for (at, value) in words {
            own[*at].store(*value, Ordering::Relaxed);
        }
        Consumer::attach(other, own).expect_err("not good")
    };
    let bytes = geometry.producer_bytes();
    let expected = bytes / 8;
    assert_eq!(attach(&[], 64), AttachError::WrongSize { words: 8, expected: 512 });
    assert_eq!(attach(&[(0, 7)], bytes), AttachError::NotFrames { magic: 7 });
    let slots = |slots| AttachError::Geometry(GeometryError::Slots { slots });
    assert_eq!(attach(&[(producer::SLOTS, 3)], bytes), slots(3));
    assert_eq!(attach(&[(producer::SLOTS, u64::MAX)], bytes), slots(u64::MAX));
    assert_eq!(attach(&[(producer::SLOTS, 1 << 17)], bytes), slots(1 << 17));
    let max = |max_message| AttachError::Geometry(GeometryError::MaxMessage { max_message });
    assert_eq!(attach(&[(producer::MAX_MESSAGE, 0)], bytes), max(0));
    assert_eq!(attach(&[(producer::MAX_MESSAGE, 1 << 40)], bytes), max(1 << 40));
    let huge = [(producer::SLOTS, 1 << 16), (producer::MAX_MESSAGE, 1 << 20)];
    let error = GeometryError::Bytes { bytes: 1 << 36 };
    assert_eq!(attach(&huge, bytes), AttachError::Geometry(error));
    let larger = Geometry::new(4, 2000).expect("a good one").producer_bytes() / 8;
    let wrong = AttachError::WrongSize { words: expected, expected: larger };
    assert_eq!(attach(&[(producer::MAX_MESSAGE, 2000)], bytes), wrong);
    let far = Corrupt::Pushed { pushed: 5, least: 0, most: 4 };
    assert_eq!(attach(&[(producer::PUSHED, 5)], bytes), AttachError::Corrupt(far));

    let (own, other) = memories(geometry);
    other[consumer::RELEASED].store(0u64.wrapping_sub(2), Ordering::Relaxed);
    assert!(Producer::create(geometry, &own, &other).is_err(), "not of zeroes");
    let small = Producer::create(geometry, &own, &zeroes(64)).expect_err("too small");
    assert_eq!(small, AttachError::WrongSize { words: 8, expected: 512 });
    for error in [small, attach(&[], 64), slots(3), max(0), AttachError::Geometry(error)] {
        assert!(error.to_string().len() > 40, "{error}");
    }
}
