//! Checks every order of the steps, and every value that the memory model lets a load see.
//!
//! The words of the memory are loom's; the orderings are written a second time here, because they
//! belong to the words. The tests check that these orderings suffice, and that the order of the
//! steps does.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use loom::thread;

use super::geometry::{DESCRIPTORS, Geometry, WORD, consumer, producer};
use super::{Consumer, OwnWords, Producer, Rest, Wake, Words};

/// The variant in which the words are read and written.
#[derive(Clone, Copy, PartialEq)]
enum Variant {
    /// The variant of `AtomicU64`.
    Correct,
    /// An index is published without what was written before.
    PublishesRelaxed,
    /// An index is accepted without what was written before it.
    NeverAcquires,
    /// There is no full fence between a write and the look at the other side.
    NeverSettles,
}

/// One side's memory: of its many words the few that are used in a queue of one slot.
struct Side {
    variant: Variant,
    count: usize,
    places: &'static [usize],
    words: Vec<AtomicU64>,
}

/// A reference to it, held by either side.
#[derive(Clone)]
struct Shared(Arc<Side>);

/// Words of the producer's memory: the header, indices, a descriptor, the first word of a message.
const PRODUCERS: &[usize] =
    &[0, 1, 2, producer::PUSHED, producer::SLEEPS, DESCRIPTORS, DESCRIPTORS + 1, 1024];
const CONSUMERS: &[usize] = &[consumer::RELEASED, consumer::WITHHELD, consumer::SLEEPS];

impl Side {
    fn shared(variant: Variant, bytes: usize, places: &'static [usize]) -> Shared {
        let words = places.iter().map(|_| AtomicU64::new(0)).collect();
        Shared(Arc::new(Self { variant, count: bytes / WORD, places, words }))
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        let place = self.places.iter().position(|place| *place == at);
        &self.words[place.expect("one of those used")]
    }
}

impl Words for Shared {
    fn count(&self) -> usize {
        self.0.count
    }

    fn load(&self, at: usize) -> u64 {
        self.0.word(at).load(Ordering::Relaxed)
    }

    fn acquire(&self) {
        if self.0.variant != Variant::NeverAcquires {
            fence(Ordering::Acquire);
        }
    }

    fn settle(&self) {
        // The strongest fence that is too weak.
        fence(if self.0.variant == Variant::NeverSettles {
            Ordering::AcqRel
        } else {
            Ordering::SeqCst
        });
    }
}

impl OwnWords for Shared {
    fn store(&self, at: usize, value: u64) {
        self.0.word(at).store(value, Ordering::Relaxed);
    }

    fn publish(&self, at: usize, value: u64) {
        let relaxed = self.0.variant == Variant::PublishesRelaxed;
        self.0.word(at).store(value, if relaxed { Ordering::Relaxed } else { Ordering::Release });
    }
}

type Sides = (Producer<Shared, Shared>, Consumer<Shared, Shared>);

fn queue(variant: Variant) -> Sides {
    let geometry = Geometry::new(1, 8).expect("a good one");
    let own = Side::shared(variant, geometry.producer_bytes(), PRODUCERS);
    let other = Side::shared(variant, Geometry::CONSUMER_BYTES, CONSUMERS);
    let producer = Producer::create(geometry, own.clone(), other.clone());
    (producer.expect("zeroes"), Consumer::attach(other, own).expect("just made"))
}

fn push(producer: &mut Producer<Shared, Shared>, value: u64) -> Option<Wake> {
    let mut slot = producer.claim().expect("honest")?;
    slot.write(0, &value.to_ne_bytes());
    slot.push(8, value);
    Some(producer.publish())
}

/// Returns the message's bytes and the user's word.
fn take(consumer: &Consumer<Shared, Shared>) -> Option<(u64, u64)> {
    let frame = consumer.take().expect("honest")?;
    assert_eq!(frame.len(), 8, "a message in parts");
    let mut bytes = [0; 8];
    frame.read(0, &mut bytes);
    Some((u64::from_ne_bytes(bytes), frame.user()))
}

/// Tries all orders with at most three preemptions, in which errors show (loom,
/// `Builder::preemption_bound`).
fn all_orders(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

/// Two messages go through one slot, each looked for once by either side.
fn taken_messages_are_whole(variant: Variant) {
    all_orders(move || {
        let (mut producer, mut consumer) = queue(variant);
        let sender = thread::spawn(move || {
            assert!(push(&mut producer, 1).is_some());
            push(&mut producer, 2).is_some()
        });
        let mut seen = 0;
        for _ in 0..2 {
            if let Some(message) = take(&consumer) {
                seen += 1;
                assert_eq!(message, (seen, seen), "a message in parts");
                let _ = consumer.release(1);
            }
        }
        let sent = 1 + u64::from(sender.join().expect("no panic"));
        while let Some(message) = take(&consumer) {
            seen += 1;
            assert_eq!(message, (seen, seen), "a message in parts");
            let _ = consumer.release(1);
        }
        assert_eq!(seen, sent);
    });
}

#[test]
fn in_every_order_taken_messages_are_whole() {
    taken_messages_are_whole(Variant::Correct);
}

#[test]
#[should_panic(expected = "a message in parts")]
fn an_index_published_too_early_is_found() {
    taken_messages_are_whole(Variant::PublishesRelaxed);
}

#[test]
#[should_panic(expected = "a message in parts")]
fn an_index_believed_too_early_is_found() {
    taken_messages_are_whole(Variant::NeverAcquires);
}

/// One side publishes while the other falls asleep.
fn no_sleeper_is_forgotten(variant: Variant) {
    all_orders(move || {
        let (mut producer, mut consumer) = queue(variant);
        let rung = Arc::new(AtomicBool::new(false));
        let bell = Arc::clone(&rung);
        let sender = thread::spawn(move || {
            if push(&mut producer, 1) == Some(Wake::Ring) {
                bell.store(true, Ordering::Release);
            }
        });
        let rest = consumer.rest().expect("honest");
        sender.join().expect("no panic");
        // No thread does anything any more.
        let rung = rung.load(Ordering::Acquire);
        assert!(rest == Rest::Work || rung, "a wake-up was lost");
    });
}

#[test]
fn in_every_order_a_consumer_that_sleeps_is_woken() {
    no_sleeper_is_forgotten(Variant::Correct);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn a_wake_up_lost_by_a_weaker_fence_is_found() {
    no_sleeper_is_forgotten(Variant::NeverSettles);
}

/// The same for a producer that waits for room.
#[test]
fn in_every_order_a_producer_that_sleeps_is_woken() {
    all_orders(|| {
        let (mut producer, mut consumer) = queue(Variant::Correct);
        assert_eq!(push(&mut producer, 1), Some(Wake::Nobody));
        assert_eq!(take(&consumer), Some((1, 1)));
        let releaser = thread::spawn(move || consumer.release(1) == Wake::Ring);
        let rest = producer.rest().expect("honest");
        let rung = releaser.join().expect("no panic");
        assert!(rest == Rest::Work || rung, "a wake-up was lost");
    });
}

/// Two publications and two sleeps: the ring that ended the first does not stand for the second.
#[test]
fn in_every_order_each_sleep_has_its_ring() {
    all_orders(|| {
        let (mut producer, mut consumer) = queue(Variant::Correct);
        let rings = Arc::new(AtomicU64::new(0));
        let bell = Arc::clone(&rings);
        let sender = thread::spawn(move || {
            for value in 1..=2 {
                // The second only if there is room already.
                if push(&mut producer, value) == Some(Wake::Ring) {
                    bell.fetch_add(1, Ordering::AcqRel);
                }
            }
        });
        for _ in 0..2 {
            if consumer.rest().expect("honest") == Rest::Sleep {
                // As if something else had woken it.
                consumer.rise();
            }
            if take(&consumer).is_some() {
                let _ = consumer.release(1);
            }
        }
        let before = rings.load(Ordering::Acquire);
        let asleep = consumer.rest().expect("honest") == Rest::Sleep;
        sender.join().expect("no panic");
        let rings = rings.load(Ordering::Acquire);
        let forgotten = asleep && take(&consumer).is_some() && rings == before;
        assert!(!forgotten, "a wake-up was lost");
    });
}
