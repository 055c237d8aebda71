//! Tests in which the other side writes anything anywhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::geometry::{DESCRIPTORS, consumer, producer};
use super::tests::{Random, memories};
use super::{Consumer, Frame, Geometry, Producer, Words};

/// Memory that counts its reads.
struct Counted {
    memory: Arc<[AtomicU64]>,
    loads: AtomicU64,
}

impl Words for Counted {
    fn count(&self) -> usize {
        self.memory.len()
    }

    fn load(&self, at: usize) -> u64 {
        self.loads.fetch_add(1, Ordering::Relaxed);
        self.memory[at].load(Ordering::Relaxed)
    }
}

fn counted(memory: &Arc<[AtomicU64]>) -> Counted {
    Counted { memory: Arc::clone(memory), loads: AtomicU64::new(0) }
}

/// Writes a harmful word, often one near the previous value.
fn scribble(random: &mut Random, memory: &[AtomicU64], interesting: &[usize]) {
    let at = match random.below(4) {
        0 => random.below(memory.len() as u64) as usize,
        1 => (DESCRIPTORS + random.below(64) as usize).min(memory.len() - 1),
        _ => interesting[random.below(interesting.len() as u64) as usize],
    };
    let was = memory[at].load(Ordering::Relaxed);
    let value = match random.below(8) {
        0 => random.next(),
        1 => 0,
        2 => u64::MAX,
        3 => 1 << random.below(64),
        4 => was.wrapping_sub(1),
        _ => was.wrapping_add(random.below(4)),
    };
    memory[at].store(value, Ordering::Relaxed);
}

/// Uses a frame in all ways.
fn use_up(frame: &Frame<'_, Counted>, geometry: Geometry) {
    assert!(frame.len() <= geometry.max_message() as usize);
    let mut bytes = vec![0; frame.len()];
    frame.read(0, &mut bytes);
    frame.read(frame.len() / 2, &mut bytes[frame.len() / 2..]);
}

/// The producer scribbles between the consumer's steps.
#[test]
fn no_producer_makes_a_consumer_panic_read_elsewhere_or_work_without_end() {
    let mut corrupt = 0;
    for seed in 0..2_000 {
        let random = &mut Random(seed);
        let geometry = Geometry::new(1 << random.below(5), 1 + random.below(100) as u32);
        let geometry = geometry.expect("a good one");
        let (memory, own) = memories(geometry);
        let _ = Producer::create(geometry, &memory, &own).expect("zeroes");
        let mut consumer = Consumer::attach(own, counted(&memory)).expect("good");
        for _ in 0..200 {
            for _ in 0..random.below(3) {
                scribble(random, &memory, &[producer::PUSHED, producer::SLEEPS]);
            }
            let loads = consumer.other().loads.load(Ordering::Relaxed);
            match random.below(4) {
                0 | 1 => {
                    if let Ok(Some(frame)) = consumer.take() {
                        use_up(&frame, geometry);
                    }
                }
                2 => {
                    let count = random.below(consumer.held() + 1);
                    let _ = consumer.release(count);
                }
                _ => {
                    let _ = consumer.rest();
                }
            }
            assert!(consumer.held() <= geometry.slots().into());
            // An index, a descriptor and twice the message.
            let loads = consumer.other().loads.load(Ordering::Relaxed) - loads;
            assert!(loads <= 5 + 2 * 14, "{loads} looks");
        }
        if let Err(first) = consumer.take() {
            assert_eq!(consumer.take().expect_err("ended for ever"), first);
            corrupt += 1;
        }
    }
    assert!(corrupt > 500, "{corrupt}: the scribbling must matter");
}

/// The consumer scribbles between the producer's steps.
#[test]
fn no_consumer_makes_a_producer_panic_or_write_over_what_it_has_not_released() {
    let mut corrupt = 0;
    for seed in 0..2_000 {
        let random = &mut Random(seed);
        let geometry = Geometry::new(1 << random.below(5), 16).expect("a good one");
        let (own, page) = memories(geometry);
        let mut producer = Producer::create(geometry, own, counted(&page)).expect("zeroes");
        for _ in 0..200 {
            for _ in 0..random.below(3) {
                let interesting = [consumer::RELEASED, consumer::WITHHELD, consumer::SLEEPS];
                scribble(random, &page, &interesting);
            }
            let loads = producer.other().loads.load(Ordering::Relaxed);
            match random.below(5) {
                0 | 1 => {
                    if let Ok(Some(mut slot)) = producer.claim() {
                        slot.write(0, &[1; 16]);
                        slot.push(16, 0);
                    }
                }
                2 => {
                    if let Ok(mut slots) = producer.claim_several(4) {
                        let last = slots.len().checked_sub(1);
                        last.into_iter().for_each(|last| slots.push(last, 16, 0));
                    }
                }
                3 => {
                    let _ = producer.publish();
                }
                _ => {
                    let _ = producer.publish();
                    let _ = producer.rest();
                    producer.rise();
                }
            }
            let loads = producer.other().loads.load(Ordering::Relaxed) - loads;
            assert!(loads <= 4, "{loads} looks");
        }
        corrupt += u64::from(producer.claim().is_err());
    }
    assert!(corrupt > 500, "{corrupt}: the scribbling must matter");
}

/// The pages are scribbled over before a side attaches.
#[test]
fn no_memory_makes_attaching_panic() {
    let mut good = [0; 2];
    for seed in 0..5_000 {
        let random = &mut Random(seed);
        let geometry = Geometry::new(4, 16).expect("a good one");
        let (theirs, ours) = memories(geometry);
        let _ = Producer::create(geometry, &theirs, &ours).expect("zeroes");
        for _ in 0..random.below(4) {
            scribble(random, &theirs, &[0, 1, 2, producer::PUSHED, producer::SLEEPS]);
            scribble(random, &ours, &[consumer::RELEASED, consumer::WITHHELD, consumer::SLEEPS]);
        }
        if let Ok(mut consumer) = Consumer::attach(&ours, counted(&theirs)) {
            good[0] += 1;
            while let Ok(Some(frame)) = consumer.take() {
                use_up(&frame, consumer.geometry());
            }
            assert!(consumer.held() <= consumer.geometry().slots().into());
            let _ = consumer.release(consumer.held());
        }
        if let Ok(mut producer) = Producer::attach(&theirs, &ours) {
            good[1] += 1;
            for _ in 0..10 {
                if let Ok(Some(slot)) = producer.claim() {
                    let length = slot.capacity();
                    slot.push(length, 0);
                }
            }
            let _ = producer.publish();
            let slots = producer.geometry().slots().into();
            assert!(producer.unreleased().is_ok_and(|n| n <= slots));
        }
    }
    assert!(good.iter().all(|n| (1_000..4_900).contains(n)), "{good:?}");
}

/// Another thread scribbles over everything, all the time.
#[test]
fn a_thread_that_scribbles_all_the_time_does_no_harm() {
    let geometry = Geometry::new(8, 64).expect("a good one");
    for seed in 0..20 {
        let (theirs, ours) = memories(geometry);
        let _ = Producer::create(geometry, &theirs, &ours).expect("zeroes");
        let ends = Arc::new(AtomicBool::new(false));
        let scribbler = {
            let (theirs, ours, ends) = (Arc::clone(&theirs), Arc::clone(&ours), Arc::clone(&ends));
            std::thread::spawn(move || {
                let random = &mut Random(seed);
                while !ends.load(Ordering::Relaxed) {
                    scribble(random, &theirs, &[0, 1, 2, producer::PUSHED, producer::SLEEPS]);
                    scribble(random, &ours, &[consumer::RELEASED, consumer::SLEEPS]);
                }
            })
        };
        let random = &mut Random(!seed);
        for _ in 0..500 {
            if let Ok(mut consumer) = Consumer::attach(&ours, counted(&theirs)) {
                for _ in 0..random.below(40) {
                    if let Ok(Some(frame)) = consumer.take() {
                        use_up(&frame, consumer.geometry());
                    }
                    let _ = consumer.release(consumer.held());
                    let _ = consumer.rest();
                }
            }
            if let Ok(mut producer) = Producer::attach(&theirs, &ours) {
                for _ in 0..random.below(40) {
                    if let Ok(Some(mut slot)) = producer.claim() {
                        let length = slot.capacity();
                        slot.write(0, &vec![1; length.min(64)]);
                        slot.push(length, 0);
                    }
                    let _ = producer.publish();
                    let _ = producer.rest();
                }
            }
        }
        ends.store(true, Ordering::Relaxed);
        scribbler.join().expect("no panic");
    }
}
