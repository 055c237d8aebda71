//! Any bytes as the shared memory of a queue, changed in any way between any operations: never a
//! panic, never more held than there are slots, never a message longer than its slot.
#![no_main]

use std::sync::atomic::{AtomicU64, Ordering};

use libfuzzer_sys::arbitrary::{self, Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use punctual_ring::frames::{Consumer, Geometry, Producer};

const SLOTS: u32 = 8;
const MAX_MESSAGE: u32 = 100;
/// The words that matter lie at the beginning of each page: few of the rest do.
const WORDS: u64 = 40;

#[derive(Arbitrary, Debug)]
enum Step {
    Push {
        at: u8,
        bytes: Vec<u8>,
    },
    Publish,
    Unreleased,
    ProducerRests,
    ProducerRises,
    Take,
    Release {
        count: u8,
    },
    Withhold {
        slots: u32,
    },
    ConsumerRests,
    ConsumerRises,
    /// Either side writes one of its words.
    ProducerScribbles {
        page: u8,
        word: u8,
        value: u64,
    },
    ConsumerScribbles {
        word: u8,
        value: u64,
    },
    /// Either is killed and comes again.
    NextProducer,
    NextConsumer,
}

fuzz_target!(|bytes: &[u8]| {
    let _ = run(&mut Unstructured::new(bytes));
});

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    let geometry = Geometry::new(SLOTS, MAX_MESSAGE).expect("a good one");
    let zeroes = |bytes| -> Vec<AtomicU64> { (0..bytes / 8).map(|_| AtomicU64::new(0)).collect() };
    let memory = zeroes(geometry.producer_bytes());
    let page = zeroes(Geometry::CONSUMER_BYTES);
    drop(Producer::create(geometry, &memory, &page).expect("zeroes"));
    let set = |words: &[AtomicU64], at: usize, value| {
        words[at % words.len()].store(value, Ordering::Relaxed);
    };
    for _ in 0..input.int_in_range(0..=8)? {
        set(&memory, input.int_in_range(0..=WORDS)? as usize, input.arbitrary()?);
        set(&page, input.int_in_range(0..=WORDS)? as usize, input.arbitrary()?);
    }

    let mut producer = Producer::attach(&memory, &page).ok();
    let mut consumer = Consumer::attach(&page, &memory).ok();
    for _ in 0..200 {
        match input.arbitrary()? {
            Step::Push { at, bytes } => {
                if let Some(Ok(Some(mut slot))) = producer.as_mut().map(Producer::claim) {
                    let at = usize::from(at).min(slot.capacity());
                    let bytes = &bytes[..bytes.len().min(slot.capacity() - at)];
                    slot.write(at, bytes);
                    slot.push(at + bytes.len(), 0);
                }
            }
            Step::Publish => _ = producer.as_mut().map(Producer::publish),
            Step::Unreleased => {
                if let Some(producer) = &mut producer {
                    let slots = producer.geometry().slots().into();
                    assert!(
                        producer.unreleased().is_ok_and(|n| n <= slots)
                            || producer.claim().is_err()
                    );
                }
            }
            Step::ProducerRests => {
                if let Some(producer) = &mut producer {
                    let _ = (producer.publish(), producer.rest());
                }
            }
            Step::ProducerRises => _ = producer.as_mut().map(Producer::rise),
            Step::Take => {
                if let Some(consumer) = &consumer {
                    if let Ok(Some(frame)) = consumer.take() {
                        assert!(frame.len() <= consumer.geometry().max_message() as usize);
                        let mut bytes = vec![0; frame.len()];
                        frame.read(0, &mut bytes);
                        frame.read(frame.len() / 3, &mut bytes[frame.len() / 3..]);
                    }
                    assert!(consumer.held() <= consumer.geometry().slots().into());
                }
            }
            Step::Release { count } => {
                if let Some(consumer) = &mut consumer {
                    let _ = consumer.release(u64::from(count).min(consumer.held()));
                }
            }
            Step::Withhold { slots } => _ = consumer.as_mut().map(|c| c.withhold(slots)),
            Step::ConsumerRests => _ = consumer.as_mut().map(Consumer::rest),
            Step::ConsumerRises => _ = consumer.as_mut().map(Consumer::rise),
            Step::ProducerScribbles { page, word, value } => {
                let first = 512 * usize::from(page % 3);
                set(&memory, first + usize::from(word) % WORDS as usize, value);
            }
            Step::ConsumerScribbles { word, value } => {
                set(&page, usize::from(word) % WORDS as usize, value);
            }
            Step::NextProducer => producer = Producer::attach(&memory, &page).ok(),
            Step::NextConsumer => consumer = Consumer::attach(&page, &memory).ok(),
        }
    }
    Ok(())
}
