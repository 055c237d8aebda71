//! An ordinary thread that uses all remaining processor time.

use std::hint::black_box;
use std::thread::{self, JoinHandle};

use punctual_linux::clock;
use punctual_model::Instant;

/// Some microseconds of work between two readings of the clock.
const ROUND: u64 = 10_000;

/// Starts a thread that counts the rounds of fixed work it completes in `[start, end)`.
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

/// Does the same and waits for the result.
pub(crate) fn progress(from: Instant, to: Instant) -> f64 {
    start(from, to).join().expect("no panic")
}
