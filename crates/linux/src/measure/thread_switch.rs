//! A switch alone: sched_yield(2) between two threads of one priority on one CPU.

use std::sync::atomic::{AtomicU64, Ordering};

use punctual_model::time::{Duration, Instant};

use super::seat::{Seat, together};
use super::{MOST_SAMPLES, MeasureError};
use crate::clock;

/// Measures the time from just before one thread yields until the other runs, both SCHED_FIFO on
/// `cpu`, for `length`. The two share one address space, so this is the cheapest switch.
pub fn thread_switch(cpu: usize, length: Duration) -> Result<Vec<Duration>, MeasureError> {
    let words = [AtomicU64::new(0), AtomicU64::new(0)];
    let table = Table::new(&words);
    let until = clock::now().saturating_add(length);
    let body = |me: u64| {
        move || {
            let mut samples = Vec::with_capacity(MOST_SAMPLES);
            table.take_turns(me, until, |sample| {
                if samples.len() < MOST_SAMPLES {
                    samples.push(sample);
                }
            });
            samples
        }
    };
    let (mut samples, more) = together([Seat::fifo(cpu); 2], body(0), body(1))?;
    samples.extend(more);
    Ok(samples)
}

/// The words that two threads yielding to each other write: the last to yield, and the time.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    yielder: &'a AtomicU64,
    yielded_at: &'a AtomicU64,
}

impl<'a> Table<'a> {
    pub(super) fn new([yielder, yielded_at]: &'a [AtomicU64; 2]) -> Self {
        Self { yielder, yielded_at }
    }

    /// Yields until `until`, and passes to `sample` the time of each switch to `me`, 0 or 1.
    ///
    /// Allocates nothing and cannot panic if `sample` does neither, so a child may call it after
    /// fork(2).
    pub(super) fn take_turns(self, me: u64, until: Instant, mut sample: impl FnMut(Duration)) {
        loop {
            let now = clock::now();
            if now >= until {
                return;
            }
            self.yielder.store(me, Ordering::Relaxed);
            self.yielded_at.store(now.as_nanos(), Ordering::Release);
            rustix::thread::sched_yield();
            let after = clock::now();
            let yielded_at = Instant::from_nanos(self.yielded_at.load(Ordering::Acquire));
            // If the last to yield is still `me`, the call returned without a switch.
            if self.yielder.load(Ordering::Relaxed) != me {
                sample(after.saturating_since(yielded_at));
            }
        }
    }
}
