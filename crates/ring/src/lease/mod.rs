//! An ownership lease: a value with exactly one owner at a time, which the owner can lend for a
//! while, so that another thread may seize it if the owner does not come back.
//!
//! One thread runs the upcalls of a process and their handlers. A handler may never return; the
//! state of the run loop is then of no use to that thread, and another thread must be able to go on
//! with it. So the owner *lends* the state before each iteration of a handler and *takes it back*
//! afterwards, with a store and a compare-and-exchange. In between, and only then, the state can be
//! *seized*. Of two threads that want it the second gets nothing. There is no lock, and no thread
//! waits.
#![allow(unsafe_code)]

#[cfg(test)]
mod interleavings;
#[cfg(test)]
mod tests;

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The value in its owner's hands.
pub struct Held<T, P = Plain<T>> {
    /// The turn counter is even while the value is held. While it is lent the counter is odd and is
    /// the loan's ticket; no two loans have the same ticket.
    shared: Arc<P>,
    /// Makes this `Send` and `Sync` only if `T` is.
    value: PhantomData<T>,
}

/// The value while its owner has lent it.
pub struct Lent<T, P = Plain<T>> {
    shared: Arc<P>,
    ticket: u64,
    value: PhantomData<T>,
}

/// The right to seize the value.
pub struct Seizer<T, P = Plain<T>> {
    shared: Arc<P>,
    value: PhantomData<fn() -> T>,
}

impl<T> Held<T> {
    /// Returns `value` with its first owner.
    ///
    /// ```
    /// use punctual_ring::lease::Held;
    ///
    /// let mut held = Held::new(1);
    /// let guard = held.seizer();
    /// *held += 1;
    /// let lent = held.lend();
    /// let ticket = guard.lent().expect("it is lent");
    /// let seized = guard.seize(ticket).expect("no other thread was quicker");
    /// assert_eq!(*seized, 2);
    /// assert!(lent.take_back().is_none(), "too late");
    /// ```
    pub fn new(value: T) -> Self {
        Self::of(Arc::new(Plain::new(value)))
    }
}

impl<T, P: Place<T>> Held<T, P> {
    /// Wraps the shared value. Only the thread that holds the turn may call this.
    fn of(shared: Arc<P>) -> Self {
        Self { shared, value: PhantomData }
    }

    /// Lets go of the value until [`Lent::take_back`].
    #[inline]
    pub fn lend(self) -> Lent<T, P> {
        let ticket = self.shared.own_turn() + 1;
        self.shared.pass(ticket);
        Lent { shared: self.shared, ticket, value: PhantomData }
    }

    /// Returns the right to seize the value when its owner does not come back.
    pub fn seizer(&self) -> Seizer<T, P> {
        Seizer { shared: Arc::clone(&self.shared), value: PhantomData }
    }
}

impl<T, P: Place<T>> Lent<T, P> {
    /// Returns the value, or `None` if it was seized meanwhile.
    #[inline]
    pub fn take_back(self) -> Option<Held<T, P>> {
        self.shared.take(self.ticket).then(|| Held::of(self.shared))
    }
}

impl<T, P: Place<T>> Seizer<T, P> {
    /// Returns the ticket of the current loan, if there is one. Everything that the owner wrote
    /// elsewhere before it lent the value can be read after this.
    pub fn lent(&self) -> Option<u64> {
        Some(self.shared.turn()).filter(|turn| turn % 2 == 1)
    }

    /// Returns the value if the loan with this ticket still lasts; its owner can then no longer
    /// take it back.
    pub fn seize(&self, ticket: u64) -> Option<Held<T, P>> {
        let seized = ticket % 2 == 1 && self.shared.take(ticket);
        seized.then(|| Held::of(Arc::clone(&self.shared)))
    }
}

impl<T, P> Clone for Seizer<T, P> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), value: PhantomData }
    }
}

impl<T, P: Place<T>> Deref for Held<T, P> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this is the one `Held` (see `Plain`), and it is borrowed for as long as the result.
        unsafe { &*self.shared.to_read() }
    }
}

impl<T, P: Place<T>> DerefMut for Held<T, P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this is the one `Held` (see `Plain`), borrowed mutably for as long as the result.
        unsafe { &mut *self.shared.to_write() }
    }
}

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
    fn new(value: T) -> Self {
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
