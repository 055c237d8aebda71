use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use super::geometry::{consumer, producer};
use super::{Consumer, Geometry, Producer, Rest, Wake};

type Memory = Arc<[AtomicU64]>;

pub(super) fn zeroes(bytes: usize) -> Memory {
    (0..bytes / 8).map(|_| AtomicU64::new(0)).collect()
}

/// Returns the memories of the producer and of the consumer.
pub(super) fn memories(geometry: Geometry) -> (Memory, Memory) {
    (zeroes(geometry.producer_bytes()), zeroes(Geometry::CONSUMER_BYTES))
}

pub(super) fn queue(
    slots: u32,
    max_message: u32,
) -> (Producer<Memory, Memory>, Consumer<Memory, Memory>) {
    let geometry = Geometry::new(slots, max_message).expect("a good one");
    let (own, other) = memories(geometry);
    let producer = Producer::create(geometry, Arc::clone(&own), Arc::clone(&other));
    (producer.expect("zeroes"), Consumer::attach(other, own).expect("just made"))
}

/// Pseudorandom numbers, the same for the same seed (Steele, Lea and Flood, "Fast Splittable
/// Pseudorandom Number Generators", 2014).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

pub(super) fn push(producer: &mut Producer<Memory, Memory>, bytes: &[u8], user: u64) -> bool {
    let Some(mut slot) = producer.claim().expect("honest") else { return false };
    slot.write(0, bytes);
    slot.push(bytes.len(), user);
    true
}

fn bytes_of(frame: super::Frame<'_, Memory>) -> Vec<u8> {
    let mut bytes = vec![0; frame.len()];
    frame.read(0, &mut bytes);
    bytes
}

/// Compares with an obviously correct queue, across the point at which the indices wrap.
#[test]
fn it_behaves_as_a_plain_queue() {
    for seed in 0..200 {
        let random = &mut Random(seed);
        let slots = 1 << random.below(5);
        let max_message = 1 + random.below(200) as u32;
        let geometry = Geometry::new(slots, max_message).expect("a good one");
        let (own, other) = memories(geometry);
        let _ = Producer::create(geometry, &own, &other).expect("zeroes");
        // As if this many messages had gone through it.
        let gone = 0u64.wrapping_sub(random.below(40));
        own[producer::PUSHED].store(gone, Ordering::Relaxed);
        other[consumer::RELEASED].store(gone, Ordering::Relaxed);
        let mut producer = Producer::attach(Arc::clone(&own), Arc::clone(&other)).expect("good");
        let mut consumer = Consumer::attach(Arc::clone(&other), Arc::clone(&own)).expect("good");

        let mut pushed = VecDeque::new();
        let mut published: VecDeque<(Vec<u8>, u64)> = VecDeque::new();
        let mut taken = VecDeque::new();
        let mut withheld = 0;
        for step in 0..400 {
            match random.below(10) {
                0 => {
                    // Each is kept or left out.
                    let most = random.below(u64::from(slots) + 3) as u32;
                    let in_use = (pushed.len() + published.len() + taken.len()) as u32;
                    let mut several = producer.claim_several(most).expect("honest");
                    assert!(several.len() <= most.min(slots - in_use) as usize);
                    assert!(
                        several.len()
                            >= most.min((slots - withheld).saturating_sub(in_use)) as usize
                    );
                    for at in 0..several.len() {
                        several.write(at, &vec![at as u8; max_message as usize]);
                    }
                    for at in 0..several.len() {
                        if random.below(3) > 0 {
                            let length = random.below(u64::from(max_message) + 1) as usize;
                            several.push(at, length, step);
                            pushed.push_back((vec![at as u8; length], step));
                        }
                    }
                }
                1..3 => {
                    let length = random.below(u64::from(max_message) + 1);
                    let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
                    let in_use = pushed.len() + published.len() + taken.len();
                    if push(&mut producer, &bytes, step) {
                        assert!(in_use < slots as usize);
                        pushed.push_back((bytes, step));
                    } else {
                        assert!(in_use >= (slots - withheld) as usize, "{in_use} of {slots}");
                    }
                }
                3..5 => {
                    assert_eq!(producer.publish(), Wake::Nobody);
                    published.append(&mut pushed);
                    let unreleased = (published.len() + taken.len()) as u64;
                    assert_eq!(producer.unreleased(), Ok(unreleased));
                }
                5..7 => {
                    let frame = consumer.take().expect("honest");
                    let expected = published.pop_front();
                    assert_eq!(frame.map(|f| (bytes_of(f), f.user())), expected);
                    taken.extend(expected);
                }
                7 => {
                    let count = random.below(taken.len() as u64 + 1);
                    assert_eq!(consumer.release(count), Wake::Nobody);
                    taken.drain(..count as usize);
                }
                8 => {
                    withheld = random.below(u64::from(slots) + 1) as u32;
                    assert_eq!(consumer.withhold(withheld), Wake::Nobody);
                    producer.unreleased().expect("looks at the consumer's page");
                }
                // Either side dies, and another takes its place.
                _ if random.below(2) == 0 => {
                    producer = Producer::attach(Arc::clone(&own), Arc::clone(&other)).expect("ok");
                    pushed.clear();
                }
                _ => {
                    consumer = Consumer::attach(Arc::clone(&other), Arc::clone(&own)).expect("ok");
                    taken.append(&mut published);
                    published = std::mem::take(&mut taken);
                }
            }
        }
    }
}

#[test]
fn a_message_is_written_and_read_in_parts_at_any_place() {
    for at in 0..20 {
        for length in 0..40 {
            let (mut producer, consumer) = queue(1, 64);
            let bytes: Vec<u8> = (1..=length).collect();
            let mut slot = producer.claim().expect("honest").expect("room");
            slot.write(0, &[255; 64]);
            slot.write(at, &bytes);
            slot.push(64, 0);
            assert_eq!(producer.publish(), Wake::Nobody);
            let frame = consumer.take().expect("honest").expect("one");
            let mut expected = [255; 64];
            expected[at..at + bytes.len()].copy_from_slice(&bytes);
            assert_eq!(bytes_of(frame), expected);
            let mut part = vec![0; bytes.len()];
            frame.read(at, &mut part);
            assert_eq!(part, bytes);
        }
    }
}

#[test]
fn the_kernel_is_told_where_the_bytes_lie() {
    let (mut producer, consumer) = queue(2, 100);
    for user in 0..2 {
        let mut slot = producer.claim().expect("honest").expect("room");
        let address = slot.address();
        slot.write(0, &[7]);
        slot.push(1, user);
        assert_eq!(producer.publish(), Wake::Nobody);
        let frame = consumer.take().expect("honest").expect("one");
        assert_eq!(frame.address(), address.cast_const());
    }
}

#[test]
fn each_sleep_is_ended_by_one_ring() {
    let (mut producer, mut consumer) = queue(2, 8);
    assert_eq!(consumer.rest(), Ok(Rest::Sleep));
    assert!(push(&mut producer, b"a", 0));
    assert_eq!(producer.publish(), Wake::Ring);
    assert!(push(&mut producer, b"b", 0));
    assert_eq!(producer.publish(), Wake::Nobody, "it was woken from this sleep");
    consumer.rise();
    assert_eq!(consumer.rest(), Ok(Rest::Work), "there are two");

    assert!(!push(&mut producer, b"c", 0));
    assert_eq!(producer.rest(), Ok(Rest::Sleep));
    assert_eq!([(); 2].map(|()| consumer.take().expect("honest").is_some()), [true; 2]);
    assert_eq!(consumer.release(1), Wake::Ring);
    assert_eq!(consumer.release(1), Wake::Nobody);
    producer.rise();
    assert_eq!(producer.rest(), Ok(Rest::Work));

    assert_eq!(consumer.rest(), Ok(Rest::Sleep));
    assert_eq!(consumer.rest(), Ok(Rest::Sleep), "another sleep, without rising");
    assert!(push(&mut producer, b"d", 0));
    assert_eq!(producer.publish(), Wake::Ring);
    assert_eq!(producer.publish(), Wake::Nobody, "nothing was published");
}

#[test]
fn what_is_withheld_stops_the_producer_and_what_is_given_wakes_it() {
    let (mut producer, mut consumer) = queue(4, 8);
    // The producer may use the slots that it has seen free.
    assert_eq!(consumer.withhold(4), Wake::Nobody);
    assert_eq!((0..6).filter(|n| push(&mut producer, b"", *n)).count(), 4);
    assert_eq!(producer.publish(), Wake::Nobody);
    assert_eq!([(); 4].map(|()| consumer.take().expect("honest").is_some()), [true; 4]);
    assert_eq!(consumer.release(4), Wake::Nobody);
    assert!(!push(&mut producer, b"", 4));
    assert_eq!(producer.rest(), Ok(Rest::Sleep));
    assert_eq!(consumer.withhold(3), Wake::Ring);
    producer.rise();
    assert_eq!((0..6).filter(|n| push(&mut producer, b"", *n)).count(), 1);
}

#[test]
fn the_next_consumer_wakes_a_sleeping_producer_and_is_woken_itself() {
    let geometry = Geometry::new(1, 8).expect("a good one");
    let (own, other) = memories(geometry);
    let mut producer = Producer::create(geometry, Arc::clone(&own), Arc::clone(&other)).expect("0");
    let mut first = Consumer::attach(Arc::clone(&other), Arc::clone(&own)).expect("good");
    assert_eq!(first.rest(), Ok(Rest::Sleep));
    assert!(push(&mut producer, b"a", 0));
    assert_eq!(producer.publish(), Wake::Ring);
    assert_eq!(producer.rest(), Ok(Rest::Sleep), "no room");
    // The first consumer is killed in its sleep.
    let mut next = Consumer::attach(other, own).expect("good");
    assert_eq!(next.take().expect("honest").map(bytes_of).as_deref(), Some(&b"a"[..]));
    assert_eq!(next.rest(), Ok(Rest::Sleep), "another sleep than its predecessor's");
    assert_eq!(next.release(1), Wake::Ring);
    producer.rise();
    assert!(push(&mut producer, b"b", 0));
    assert_eq!(producer.publish(), Wake::Ring);
}

#[test]
fn between_two_threads_every_message_arrives_once_whole_and_in_order() {
    const MESSAGES: u64 = 50_000;
    let (mut producer, mut consumer) = queue(8, 100);
    // Channels as bells: one ring each.
    let (ring_consumer, consumers_bell) = mpsc::channel();
    let (ring_producer, producers_bell) = mpsc::channel();
    let sender = std::thread::spawn(move || {
        let mut n = 0;
        while n < MESSAGES {
            if push(&mut producer, &[n as u8; 100][..(n % 101) as usize], n) {
                n += 1;
                if n % 3 == 0 && producer.publish() == Wake::Ring {
                    ring_consumer.send(()).expect("it waits");
                }
                continue;
            }
            if producer.publish() == Wake::Ring {
                ring_consumer.send(()).expect("it waits");
            }
            if producer.rest() == Ok(Rest::Sleep) {
                producers_bell.recv().expect("it does not end before");
                producer.rise();
            }
        }
        if producer.publish() == Wake::Ring {
            ring_consumer.send(()).expect("it waits");
        }
    });
    for n in 0..MESSAGES {
        loop {
            if let Some(frame) = consumer.take().expect("honest") {
                assert_eq!(frame.user(), n);
                assert_eq!(bytes_of(frame), [n as u8; 100][..(n % 101) as usize]);
                break;
            }
            if consumer.rest() == Ok(Rest::Sleep) {
                consumers_bell.recv().expect("a wake-up was lost");
                consumer.rise();
            }
        }
        if consumer.release(1) == Wake::Ring {
            // The sender may have found room by itself and ended.
            let _ = ring_producer.send(());
        }
    }
    sender.join().expect("no panic");
    assert!(consumer.take().expect("honest").is_none());
}

/// A queue may begin at any number, and the messages left in its predecessor go on in it.
#[test]
fn a_queue_follows_another_with_all_that_had_not_left() {
    for first in [0, 1, 7, u64::MAX - 2] {
        let geometry = Geometry::new(4, 20).expect("a good one");
        let begin = |first| {
            let (own, other) = memories(geometry);
            Consumer::<Memory, Memory>::prepare(first, &other).expect("a page");
            Producer::<Memory, Memory>::prepare(geometry, first, &own).expect("memory");
            let producer = Producer::attach(Arc::clone(&own), Arc::clone(&other));
            (producer.expect("prepared"), Consumer::attach(other, own).expect("just made"))
        };
        let (mut old, mut consumer) = begin(first);
        for n in 0..4_u8 {
            assert!(push(&mut old, &vec![n; usize::from(n) * 6], u64::from(n)));
        }
        assert_eq!(old.publish(), Wake::Nobody);
        for _ in 0..3 {
            consumer.take().expect("honest").expect("there are four");
        }
        // Taken is not released: two are carried over, of which one was being worked on.
        assert_eq!(consumer.release(2), Wake::Nobody);
        assert_eq!(old.unreleased(), Ok(2));
        let next = first.wrapping_add(2);
        assert_eq!((old.released(), consumer.released()), (next, next));

        let (mut new, consumer) = begin(next);
        assert_eq!(new.carry_over(&mut old), Ok(2));
        assert_eq!(consumer.released(), next);
        for n in 2..4_u8 {
            let frame = consumer.take().expect("honest").expect("carried over");
            assert_eq!(frame.user(), u64::from(n), "the user's word stays");
            assert_eq!(bytes_of(frame), vec![n; usize::from(n) * 6]);
        }
        assert!(consumer.take().expect("honest").is_none());
        assert_eq!(consumer.pushed(), next.wrapping_add(2));
    }
}

/// Messages that are published together carry the word that is given then.
#[test]
fn a_word_can_be_given_when_messages_are_published() {
    let (mut producer, consumer) = queue(4, 8);
    assert_eq!(producer.publish_with(|| panic!("there is nothing to show")), Wake::Nobody);
    assert!(push(&mut producer, b"a", 1) && push(&mut producer, b"b", 2));
    assert_eq!(producer.publish_with(|| 77), Wake::Nobody);
    for _ in 0..2 {
        assert_eq!(consumer.take().expect("honest").expect("two").user(), 77);
    }
}
