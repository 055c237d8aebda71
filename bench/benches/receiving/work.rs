//! The work for each datagram, and the counts.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use punctual_linux::clock;
use punctual_model::Duration;

/// The first byte of a guaranteed datagram.
pub(crate) const GUARANTEED: u8 = b'g';

/// The same work for each datagram, in processor time, so that interrupts do not shorten it.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    rounds: u64,
}

impl Work {
    /// Returns as many rounds as take this long on an undisturbed CPU.
    pub(crate) fn of(length: Duration) -> Self {
        let trial = Self { rounds: 200_000 };
        let nanos = |work: Self| {
            let begin = clock::thread_cpu_time();
            work.work();
            (clock::thread_cpu_time().as_nanos() - begin.as_nanos()).max(1)
        };
        let least = (0..20).map(|_| nanos(trial)).min().unwrap_or(1);
        Self { rounds: (trial.rounds * length.as_nanos() / least).max(1) }
    }

    fn work(self) {
        for round in 0..self.rounds {
            black_box(round);
        }
    }
}

/// The number of processed datagrams, and whether to go on.
#[derive(Default)]
pub(crate) struct Counts {
    guaranteed: AtomicU64,
    others: AtomicU64,
    stopped: AtomicBool,
}

impl Counts {
    /// Processes a datagram that begins with `first`.
    pub(crate) fn work_on(&self, work: Work, first: Option<&u8>) {
        work.work();
        let count = if first == Some(&GUARANTEED) { &self.guaranteed } else { &self.others };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn guaranteed(&self) -> u64 {
        self.guaranteed.load(Ordering::Relaxed)
    }

    pub(crate) fn all(&self) -> u64 {
        self.guaranteed() + self.others.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}
