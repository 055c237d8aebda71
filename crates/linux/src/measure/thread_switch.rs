//! A switch and nothing else: sched_yield(2) between two threads of one priority on one CPU.

use std::sync::atomic::{AtomicU64, Ordering};

use punctual_model::time::{Duration, Instant};

use super::seat::{Seat, together};
use super::{MOST_SAMPLES, MeasureError};
use crate::clock;

/// From just before one thread yields until the other runs, both SCHED_FIFO on `cpu`, for `length`.
/// The two have one address space, so what is switched is the least there is.
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

/// What the two that yield to each other write: who last did, and when.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    who: &'a AtomicU64,
    when: &'a AtomicU64,
}

impl<'a> Table<'a> {
    pub(super) fn new([who, when]: &'a [AtomicU64; 2]) -> Self {
        Self { who, when }
    }

    /// Yields until `until`; `sample` gets the time of each switch to `me`, 0 or 1.
    ///
    /// Allocates nothing and cannot panic if `sample` does neither: fit for a child after fork(2).
    pub(super) fn take_turns(self, me: u64, until: Instant, mut sample: impl FnMut(Duration)) {
        loop {
            let now = clock::now();
            if now >= until {
                return;
            }
            self.who.store(me, Ordering::Relaxed);
            self.when.store(now.as_nanos(), Ordering::Release);
            rustix::thread::sched_yield();
            let after = clock::now();
            let when = Instant::from_nanos(self.when.load(Ordering::Acquire));
            // Nobody else yielded if it is still ours: the call came back without a switch.
            if self.who.load(Ordering::Relaxed) != me {
                sample(after.saturating_since(when));
            }
        }
    }
}
