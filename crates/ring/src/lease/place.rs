//! The memory of a lease: the value, and the counter of turns that says which thread owns it.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The operations on memory that a lease needs. [`Plain`] is the real implementation; the tests use
/// one whose every interleaving is tried.
///
/// # Safety
/// The pointers always lead to the same value; `take` is one atomic step; and a thread that took a
/// turn sees everything written before that turn was passed.
pub unsafe trait Place<T> {
    /// Returns the turn. Only the thread that passed it last or holds the value may call this: no
    /// other thread changes the turn then.
    fn own_turn(&self) -> u64;
    /// Returns the turn, and acquires everything that was written before it was passed.
    fn turn(&self) -> u64;
    /// Sets the turn, after everything that was written before (release).
    fn pass(&self, turn: u64);
    /// Sets the turn to the one after `turn` if it is `turn`, and returns whether it was; if so,
    /// everything that was written before `turn` was passed can be read.
    fn take(&self, turn: u64) -> bool;
    /// Returns the address from which to read the value.
    fn to_read(&self) -> *const T;
    /// Returns the address at which to write the value.
    fn to_write(&self) -> *mut T;
}

/// Ordinary memory.
#[derive(Debug)]
pub struct Plain<T> {
    turn: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a `Held`, and there is at most one of them at a time:
// `new` makes the first; `lend` consumes it and makes the turn odd; another is made only by the one
// compare-and-exchange that makes that odd turn even again. So the threads take turns with the
// value, which needs it to be `Send` and no more. Each hand-over is a release (`lend`) that the next
// owner acquires.
unsafe impl<T: Send> Sync for Plain<T> {}

impl<T> Plain<T> {
    pub(super) fn new(value: T) -> Self {
        Self { turn: AtomicU64::new(0), value: UnsafeCell::new(value) }
    }
}

// SAFETY: one cell, whose place does not change while it is shared; `take` is a compare-and-exchange
// that acquires what `pass` released.
unsafe impl<T> Place<T> for Plain<T> {
    #[inline]
    fn own_turn(&self) -> u64 {
        self.turn.load(Ordering::Relaxed)
    }

    #[inline]
    fn turn(&self) -> u64 {
        self.turn.load(Ordering::Acquire)
    }

    #[inline]
    fn pass(&self, turn: u64) {
        self.turn.store(turn, Ordering::Release);
    }

    #[inline]
    fn take(&self, turn: u64) -> bool {
        let next = turn.wrapping_add(1);
        self.turn.compare_exchange(turn, next, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn to_read(&self) -> *const T {
        self.value.get()
    }

    #[inline]
    fn to_write(&self) -> *mut T {
        self.value.get()
    }
}
