//! The atomic word that the table is made of.

use std::sync::atomic::{AtomicU64, Ordering};

/// What the table asks of an atomic word. The one in shared memory is [`AtomicU64`]; the tests put
/// in one whose every interleaving is tried.
pub trait Word {
    /// Reads it, and all that was written before what is read was stored.
    fn load(&self) -> u64;
    /// Writes it, after all that was written before.
    fn store(&self, value: u64);
    /// Writes it and gives what it was, with both of these orders.
    fn swap(&self, value: u64) -> u64;
    /// Writes `new` if it is `seen`, and says whether it was.
    fn replace(&self, seen: u64, new: u64) -> bool;
    /// Makes it at least `value`.
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
