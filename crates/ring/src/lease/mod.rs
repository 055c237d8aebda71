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
mod place;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

pub use place::{Place, Plain};

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
