//! Measures what it costs a real-time thread to record a trace event for another thread.
#![allow(clippy::disallowed_methods, reason = "measures as its peers do")]

use std::hint::black_box;
use std::sync::mpsc;
use std::time::{self, Duration};

use punctual_bench::pairs::compare;
use punctual_model::{Instant, JobId};
use punctual_ring::spsc;
use punctual_trace::{Event, Kind};

/// The same as the runtime's ring.
const SLOTS: usize = 1 << 16;
/// Pushed in one go; then the same thread drains them, which is not counted.
const BATCH: u64 = 1_024;
const BATCHES: u64 = 256;
const PAIRS: usize = 41;

fn main() {
    // The path of an item to a queue matters as much as the queue: one that is built in place may
    // go from registers to its slot, one that lies in memory is copied, for every queue.
    against_peers("made in place", |i| event(black_box(i)));
    against_peers("copied", |i| black_box(event(i)));
}

fn against_peers(how: &str, make: impl Fn(u64) -> Event + Copy) {
    let what = format!("push of a trace event {how}, our ring (A)");
    compare(&format!("{what} / rtrb (B)"), PAIRS, our_ring(make), rtrb_ring(make));
    compare(&format!("{what} / std mpsc (B)"), PAIRS, our_ring(make), std_channel(make));
}

fn our_ring(make: impl Fn(u64) -> Event) -> impl FnMut() -> f64 {
    let (mut producer, mut consumer) = spsc::channel(SLOTS);
    pushes(make, move |event| producer.push(event), move || consumer.pop())
}

fn rtrb_ring(make: impl Fn(u64) -> Event) -> impl FnMut() -> f64 {
    let (mut producer, mut consumer) = rtrb::RingBuffer::new(SLOTS);
    pushes(make, move |event| producer.push(event).is_ok(), move || consumer.pop().ok())
}

fn std_channel(make: impl Fn(u64) -> Event) -> impl FnMut() -> f64 {
    let (sender, receiver) = mpsc::sync_channel(SLOTS);
    pushes(make, move |event| sender.try_send(event).is_ok(), move || receiver.try_recv().ok())
}

fn pushes(
    make: impl Fn(u64) -> Event,
    mut push: impl FnMut(Event) -> bool,
    mut pop: impl FnMut() -> Option<Event>,
) -> impl FnMut() -> f64 {
    move || {
        let mut spent = Duration::ZERO;
        for _ in 0..BATCHES {
            let start = time::Instant::now();
            let pushed = (0..BATCH).filter(|i| push(make(*i))).count();
            spent += start.elapsed();
            let popped = std::iter::from_fn(|| pop().map(black_box)).count();
            assert_eq!((pushed as u64, popped as u64), (BATCH, BATCH));
        }
        spent.as_nanos() as f64 / (BATCH * BATCHES) as f64
    }
}

fn event(i: u64) -> Event {
    let at = Instant::from_nanos(i);
    Event { at, job: JobId { task: 7, index: i }, release: at, kind: Kind::Start }
}
