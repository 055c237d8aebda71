//! The atomic word that the table is made of: a level and the instant from which it counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// The operations that the table needs of an atomic word. In shared memory it is [`AtomicU64`]; the
/// tests use one whose every interleaving is tried.
pub trait Word {
    /// Reads the word, and acquires everything that was written before the value read was stored.
    fn load(&self) -> u64;
    /// Writes the word, after everything that was written before (release).
    fn store(&self, value: u64);
    /// Writes the word and returns what it was, with both of these orders.
    fn swap(&self, value: u64) -> u64;
    /// Writes `new` if the word is `seen`, and returns whether it was.
    fn replace(&self, seen: u64, new: u64) -> bool;
    /// Raises the word to at least `value`.
    fn raise_to(&self, value: u64);
}

impl Word for AtomicU64 {
    fn load(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    fn store(&self, value: u64) {
        self.store(value, Ordering::Release);
    }

    fn swap(&self, value: u64) -> u64 {
        self.swap(value, Ordering::AcqRel)
    }

    fn replace(&self, seen: u64, new: u64) -> bool {
        self.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn raise_to(&self, value: u64) {
        self.fetch_max(value, Ordering::AcqRel);
    }
}

/// A level and the instant from which it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The level. Higher is more urgent, as with SCHED_FIFO; never 0.
    pub level: u8,
    /// The instant in nanoseconds of CLOCK_MONOTONIC, kept in steps of 256, rounded up.
    pub from: u64,
}

impl Entry {
    /// Packs an entry. Returns zero for none, for level 0, and for an instant so late that it means
    /// never.
    pub(super) fn word_of(entry: Option<Self>) -> u64 {
        let Some(Self { level: level @ 1.., from }) = entry else { return 0 };
        from.checked_next_multiple_of(256).map_or(0, |from| from | u64::from(level))
    }

    pub(super) fn of_word(word: u64) -> Self {
        Self { level: word as u8, from: word & !0xff }
    }

    pub(super) fn has_passed(self, now: u64) -> bool {
        self.level > 0 && self.from <= now
    }

    pub(super) fn is_due_above(self, level: u8, now: u64) -> bool {
        self.level > level && self.from <= now
    }
}
