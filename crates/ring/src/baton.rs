//! A value with exactly one owner at a time, who can lend it out of his hands for a while, so that
//! another thread may seize it if he does not come back.
//!
//! One thread turns the upcalls of a process and runs their handlers itself. While a handler runs
//! it may never return; the turning state is then of no use to that thread, and another must be able
//! to go on with it. So the state is *lent* before each iteration of a handler and *taken back*
//! after it, a store and a compare-and-exchange; in between, and only then, it can be *seized*.
//! Whoever comes second finds that he is too late. No lock, and nobody waits.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};

#[cfg(loom)]
use loom::{cell::UnsafeCell, sync::Arc, sync::atomic::AtomicU64};
#[cfg(not(loom))]
use std::{sync::Arc, sync::atomic::AtomicU64};

use std::sync::atomic::Ordering;

/// What the standard library's has under another name, so that `loom` can stand in for it.
#[cfg(not(loom))]
struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline]
    fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    #[inline]
    fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

struct Shared<T> {
    /// Even: held. Odd: lent, and the number is the loan's ticket; no two loans have the same.
    turn: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a `Held`, and there is at most one of them at a time:
// `new` makes the first; `lend` consumes it and makes the turn odd; a new one is made only by the
// one compare-and-exchange that makes that odd turn even again. So the threads take turns with the
// value, which needs it to be `Send` and no more. Each hand-over is a release (`lend`) that the next
// owner acquires.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above; moving the whole moves the value.
unsafe impl<T: Send> Send for Shared<T> {}

/// The value in its owner's hands.
pub struct Held<T> {
    shared: Arc<Shared<T>>,
}

/// The value while its owner has it out of his hands.
pub struct Lent<T> {
    shared: Arc<Shared<T>>,
    ticket: u64,
}

/// The right to seize the value.
pub struct Seizer<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Held<T> {
    /// `value` with its first owner.
    ///
    /// ```
    /// use punctual_ring::baton::Held;
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
        let (turn, value) = (AtomicU64::new(0), UnsafeCell::new(value));
        Self { shared: Arc::new(Shared { turn, value }) }
    }

    /// Lets go of the value until [`Lent::take_back`].
    #[inline]
    pub fn lend(self) -> Lent<T> {
        // Nobody else writes while it is even.
        let ticket = self.shared.turn.load(Ordering::Relaxed) + 1;
        self.shared.turn.store(ticket, Ordering::Release);
        Lent { shared: self.shared, ticket }
    }

    /// For the one who is to seize the value when its owner does not come back.
    pub fn seizer(&self) -> Seizer<T> {
        Seizer { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Shared<T> {
    /// Ends the loan with this ticket, if it still lasts.
    #[inline]
    fn end(&self, ticket: u64) -> bool {
        let ended =
            self.turn.compare_exchange(ticket, ticket + 1, Ordering::Acquire, Ordering::Relaxed);
        ended.is_ok()
    }
}

impl<T> Lent<T> {
    /// The value again; none if it was seized meanwhile.
    #[inline]
    pub fn take_back(self) -> Option<Held<T>> {
        self.shared.end(self.ticket).then_some(Held { shared: self.shared })
    }
}

impl<T> Seizer<T> {
    /// The ticket of the loan that lasts now, if one does. What the owner wrote elsewhere before he
    /// lent the value can be read after this.
    pub fn lent(&self) -> Option<u64> {
        Some(self.shared.turn.load(Ordering::Acquire)).filter(|turn| turn % 2 == 1)
    }

    /// The value, if the loan with this ticket still lasts; its owner then takes back nothing.
    pub fn seize(&self, ticket: u64) -> Option<Held<T>> {
        (ticket % 2 == 1 && self.shared.end(ticket))
            .then(|| Held { shared: Arc::clone(&self.shared) })
    }
}

impl<T> Clone for Seizer<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this is the one `Held` (see `Sync`), and it is borrowed for as long as the result.
        self.shared.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for Held<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this is the one `Held` (see `Sync`), borrowed mutably for as long as the result.
        self.shared.value.with_mut(|value| unsafe { &mut *value })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn it_is_seized_only_while_lent_and_only_with_the_ticket_of_that_loan() {
        let held = Held::new(7);
        let guard = held.seizer();
        assert_eq!(guard.lent(), None);
        assert!(guard.seize(0).is_none() && guard.seize(1).is_none());
        let lent = held.lend();
        let old = guard.lent().expect("lent");
        let lent = lent.take_back().expect("nobody seized it").lend();
        assert!(guard.seize(old).is_none(), "another loan");
        let ticket = guard.clone().lent().expect("lent");
        assert_eq!(guard.seize(ticket).as_deref(), Some(&7));
        assert!(lent.take_back().is_none());
    }

    #[test]
    fn of_two_who_want_it_one_gets_it_and_nothing_is_lost() {
        let mut held = Held::new(0u64);
        let guard = held.seizer();
        for round in 0..2_000 {
            let (lent, guard) = (held.lend(), guard.clone());
            let ticket = guard.lent().expect("lent");
            let rival = thread::spawn(move || {
                guard.seize(ticket).map(|mut held| {
                    *held += 1;
                    held
                })
            });
            let own = lent.take_back().map(|mut held| {
                *held += 1;
                held
            });
            let seized = rival.join().expect("no panic");
            assert_ne!(own.is_some(), seized.is_some());
            held = own.or(seized).expect("one of them");
            assert_eq!(*held, round + 1);
        }
    }
}

/// `RUSTFLAGS="--cfg loom" cargo test -p punctual-ring --lib baton --release`
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::thread;

    #[test]
    fn in_every_order_one_of_them_gets_it_with_all_that_was_written() {
        loom::model(|| {
            let mut held = Held::new(1u32);
            let guard = held.seizer();
            *held = 2;
            let lent = held.lend();
            let seizing = thread::spawn(move || {
                let ticket = guard.lent()?;
                let mut held = guard.seize(ticket)?;
                *held += 10;
                assert_eq!(*held % 10, 2);
                Some(held)
            });
            let own = lent.take_back().map(|mut held| {
                *held += 10;
                held.lend()
            });
            let seized = seizing.join().expect("no panic");
            // It may have been seized in the second loan too: then both had it, in turn.
            let own = own.and_then(Lent::take_back);
            assert!(own.is_none() || seized.is_none());
            let last = own.or(seized).expect("one of them has it");
            assert!(*last == 12 || *last == 22);
        });
    }
}
