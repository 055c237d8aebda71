//! The atomic word that the table is made of.

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
