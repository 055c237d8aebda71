//! An ordinary thread that uses all the processor time that others leave.

use std::hint::black_box;
use std::thread::{self, JoinHandle};

use punctual_linux::clock;
use punctual_model::Instant;

/// Some microseconds of work between two looks at the clock.
const ROUND: u64 = 10_000;

/// How many rounds of a fixed work it gets done in `[start, end)`.
pub(crate) fn start(start: Instant, end: Instant) -> JoinHandle<f64> {
    thread::spawn(move || {
        clock::sleep_until(start);
        let mut rounds = 0u64;
        while clock::now() < end {
            (0..ROUND).for_each(|i| _ = black_box(i));
            rounds += 1;
        }
        rounds as f64
    })
}

/// The same, waited for.
pub(crate) fn progress(from: Instant, to: Instant) -> f64 {
    start(from, to).join().expect("no panic")
}
