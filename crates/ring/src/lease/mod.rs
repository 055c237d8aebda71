//! A value with exactly one owner at a time, who can lend it out of his hands for a while, so that
//! another thread may seize it if he does not come back.
//!
//! One thread turns the upcalls of a process and runs their handlers itself. While a handler runs
//! it may never return; the turning state is then of no use to that thread, and another must be able
//! to go on with it. So the state is *lent* before each iteration of a handler and *taken back*
//! after it, a store and a compare-and-exchange; in between, and only then, it can be *seized*.
//! Whoever comes second finds that he is too late. No lock, and nobody waits.
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
    /// Its turn is even while the value is held. While it is lent the turn is odd, and is the loan's
    /// ticket; no two loans have the same.
    shared: Arc<P>,
    /// So threads share it only if they may share the value.
    value: PhantomData<T>,
}

/// The value while its owner has it out of his hands.
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
    /// `value` with its first owner.
    ///
    /// ```
    /// use punctual_ring::lease::Held;
    ///
    /// let mut held = Held::new(1);
    /// let guard = held.seizer();
    /// *held += 1;
    /// let lent = held.lend();
    /// let ticket = guard.lent().expect("it is lent");
    /// let seized = guard.seize(ticket).expect("and nobody was quicker");
    /// assert_eq!(*seized, 2);
    /// assert!(lent.take_back().is_none(), "too late");
    /// ```
    pub fn new(value: T) -> Self {
        Self::of(Arc::new(Plain::new(value)))
    }
}

impl<T, P: Place<T>> Held<T, P> {
    /// To be called only by the one who has the turn.
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

    /// For the one who is to seize the value when its owner does not come back.
    pub fn seizer(&self) -> Seizer<T, P> {
        Seizer { shared: Arc::clone(&self.shared), value: PhantomData }
    }
}

impl<T, P: Place<T>> Lent<T, P> {
    /// The value again; none if it was seized meanwhile.
    #[inline]
    pub fn take_back(self) -> Option<Held<T, P>> {
        self.shared.take(self.ticket).then(|| Held::of(self.shared))
    }
}

impl<T, P: Place<T>> Seizer<T, P> {
    /// The ticket of the loan that lasts now, if one does. What the owner wrote elsewhere before he
    /// lent the value can be read after this.
    pub fn lent(&self) -> Option<u64> {
        Some(self.shared.turn()).filter(|turn| turn % 2 == 1)
    }

    /// The value, if the loan with this ticket still lasts; its owner then takes back nothing.
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
