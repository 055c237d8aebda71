//! A thread that uses all remaining processor time, and measures how much that was.

use std::hint::black_box;
use std::thread as threads;

use punctual_linux::clock;
use punctual_linux::sched::{self, Class};
use punctual_linux::thread;
use punctual_model::Instant;

/// Some microseconds of work between two readings of the clock.
const ROUND: u64 = 10_000;

/// Returns the rounds of fixed work that it completes in `[start, end)`, above all ordinary threads
/// and below all other real-time ones.
pub(crate) fn progress(start: Instant, end: Instant) -> f64 {
    let soak = move || {
        sched::set(thread::current(), Class::Fifo { priority: 1 }).expect("tried out before");
        clock::sleep_until(start);
        let mut rounds = 0u64;
        while clock::now() < end {
            (0..ROUND).for_each(|i| _ = black_box(i));
            rounds += 1;
        }
        rounds as f64
    };
    threads::spawn(soak).join().expect("no panic")
}
