//! Every order of the steps, and every value that the memory model lets a load see.
//!
//! The words of the memory are loom's; the orderings are written a second time here, because they
//! belong to the words. What is checked is that they suffice, and that the order of the steps does.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use loom::thread;

use super::geometry::{DESCRIPTORS, Geometry, WORD, consumer, producer};
use super::{Consumer, OwnWords, Producer, Rest, Wake, Words};

/// How the words are read and written.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// As words of `AtomicU64` are.
    Right,
    /// An index is published without what was written before.
    PublishesRelaxed,
    /// An index is believed without what was written before it.
    NeverAcquires,
    /// Between a write and the look at the other side nothing settles.
    NeverSettles,
}

/// One side's memory: of its many words the few that are used in a queue of one slot.
struct Side {
    way: Way,
    count: usize,
    places: &'static [usize],
    words: Vec<AtomicU64>,
}

/// Either side's hold on it.
#[derive(Clone)]
struct Shared(Arc<Side>);

/// Words of the producer's memory: the header, indices, a descriptor, the first word of a message.
const PRODUCERS: &[usize] =
    &[0, 1, 2, producer::PUSHED, producer::SLEEPS, DESCRIPTORS, DESCRIPTORS + 1, 1024];
const CONSUMERS: &[usize] = &[consumer::RELEASED, consumer::WITHHELD, consumer::SLEEPS];

impl Side {
    fn shared(way: Way, bytes: usize, places: &'static [usize]) -> Shared {
        let words = places.iter().map(|_| AtomicU64::new(0)).collect();
        Shared(Arc::new(Self { way, count: bytes / WORD, places, words }))
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
        if self.0.way != Way::NeverAcquires {
            fence(Ordering::Acquire);
        }
    }

    fn settle(&self) {
        // As strong as can be without being it.
        fence(if self.0.way == Way::NeverSettles { Ordering::AcqRel } else { Ordering::SeqCst });
    }
}

impl OwnWords for Shared {
    fn store(&self, at: usize, value: u64) {
        self.0.word(at).store(value, Ordering::Relaxed);
    }

    fn publish(&self, at: usize, value: u64) {
        let relaxed = self.0.way == Way::PublishesRelaxed;
        self.0.word(at).store(value, if relaxed { Ordering::Relaxed } else { Ordering::Release });
    }
}

type Sides = (Producer<Shared, Shared>, Consumer<Shared, Shared>);

fn queue(way: Way) -> Sides {
    let geometry = Geometry::new(1, 8).expect("a good one");
    let own = Side::shared(way, geometry.producer_bytes(), PRODUCERS);
    let other = Side::shared(way, Geometry::CONSUMER_BYTES, CONSUMERS);
    let producer = Producer::create(geometry, own.clone(), other.clone());
    (producer.expect("zeroes"), Consumer::attach(other, own).expect("just made"))
}

fn push(producer: &mut Producer<Shared, Shared>, value: u64) -> Option<Wake> {
    let mut slot = producer.claim().expect("honest")?;
    slot.write(0, &value.to_ne_bytes());
    slot.push(8, value);
    Some(producer.publish())
}

/// The message's bytes and the user's word.
fn take(consumer: &Consumer<Shared, Shared>) -> Option<(u64, u64)> {
    let frame = consumer.take().expect("honest")?;
    assert_eq!(frame.len(), 8, "a message in parts");
    let mut bytes = [0; 8];
    frame.read(0, &mut bytes);
    Some((u64::from_ne_bytes(bytes), frame.user()))
}

/// With at most three preemptions, in which errors show (loom, `Builder::preemption_bound`).
fn all_orders(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

/// Two messages through one slot, each looked for once by either side.
fn what_is_taken_is_whole(way: Way) {
    all_orders(move || {
        let (mut producer, mut consumer) = queue(way);
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
fn in_every_order_what_is_taken_is_whole() {
    what_is_taken_is_whole(Way::Right);
}

#[test]
#[should_panic(expected = "a message in parts")]
fn an_index_published_too_early_is_found() {
    what_is_taken_is_whole(Way::PublishesRelaxed);
}

#[test]
#[should_panic(expected = "a message in parts")]
fn an_index_believed_too_early_is_found() {
    what_is_taken_is_whole(Way::NeverAcquires);
}

/// One side publishes while the other falls asleep.
fn no_sleeper_is_forgotten(way: Way) {
    all_orders(move || {
        let (mut producer, mut consumer) = queue(way);
        let rung = Arc::new(AtomicBool::new(false));
        let bell = Arc::clone(&rung);
        let sender = thread::spawn(move || {
            if push(&mut producer, 1) == Some(Wake::Ring) {
                bell.store(true, Ordering::Release);
            }
        });
        let rest = consumer.rest().expect("honest");
        sender.join().expect("no panic");
        // Nobody will do anything any more.
        let rung = rung.load(Ordering::Acquire);
        assert!(rest == Rest::Work || rung, "a wake-up was lost");
    });
}

#[test]
fn in_every_order_a_consumer_that_sleeps_is_woken() {
    no_sleeper_is_forgotten(Way::Right);
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn a_wake_up_lost_by_a_weaker_fence_is_found() {
    no_sleeper_is_forgotten(Way::NeverSettles);
}

/// The same for a producer that waits for room.
#[test]
fn in_every_order_a_producer_that_sleeps_is_woken() {
    all_orders(|| {
        let (mut producer, mut consumer) = queue(Way::Right);
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
        let (mut producer, mut consumer) = queue(Way::Right);
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
