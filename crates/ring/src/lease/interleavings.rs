//! Checks every order of the steps, and every value that the memory model lets a load see.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::{Held, Lent, Place};

/// The variant in which a turn is handed over.
#[derive(Clone, Copy, PartialEq)]
enum Variant {
    /// The variant of [`super::Plain`].
    Correct,
    /// Passed without releasing what was written.
    PassesRelaxed,
    /// Taken without acquiring what was written.
    TakesRelaxed,
    /// Taken by a load and a store.
    TakesInTwoSteps,
}

struct Tried<T> {
    variant: Variant,
    turn: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: for `Variant::Correct`, as for `Plain`. With the others `loom` runs the threads as
// coroutines of one thread, and panics at an access that would have been a race before it is made.
unsafe impl<T: Send> Sync for Tried<T> {}

// SAFETY: one cell; for the rest as above.
unsafe impl<T> Place<T> for Tried<T> {
    fn own_turn(&self) -> u64 {
        self.turn.load(Ordering::Relaxed)
    }

    fn turn(&self) -> u64 {
        let order = match self.variant {
            Variant::TakesRelaxed => Ordering::Relaxed,
            _ => Ordering::Acquire,
        };
        self.turn.load(order)
    }

    fn pass(&self, turn: u64) {
        let order = match self.variant {
            Variant::PassesRelaxed => Ordering::Relaxed,
            _ => Ordering::Release,
        };
        self.turn.store(turn, order);
    }

    fn take(&self, turn: u64) -> bool {
        if self.variant == Variant::TakesInTwoSteps {
            let is_ours = self.turn.load(Ordering::Acquire) == turn;
            if is_ours {
                self.turn.store(turn + 1, Ordering::Release);
            }
            return is_ours;
        }
        let order = match self.variant {
            Variant::TakesRelaxed => Ordering::Relaxed,
            _ => Ordering::Acquire,
        };
        self.turn.compare_exchange(turn, turn + 1, order, Ordering::Relaxed).is_ok()
    }

    fn to_read(&self) -> *const T {
        self.value.with(|value| value)
    }

    fn to_write(&self) -> *mut T {
        self.value.with_mut(|value| value)
    }
}

/// The owner lends the value twice, and another thread seizes it when it can.
fn one_of_them_gets_it_with_all_that_was_written(variant: Variant) {
    loom::model(move || {
        let place = Tried { variant, turn: AtomicU64::new(0), value: UnsafeCell::new(1u32) };
        let mut held: Held<u32, _> = Held::of(Arc::new(place));
        let guard = held.seizer();
        *held = 2;
        let seizing = thread::spawn(move || {
            let ticket = guard.lent()?;
            let mut held = guard.seize(ticket)?;
            *held += 10;
            Some(held)
        });
        let own = held.lend().take_back().map(|mut held| {
            *held += 100;
            held.lend()
        });
        let began_again = own.is_some();
        let own = own.and_then(Lent::take_back);
        let seized = seizing.join().expect("no panic");
        assert_ne!(own.is_some(), seized.is_some(), "exactly one of them has it");
        let was_seized = seized.is_some();
        let last = own.or(seized).expect("one of them has it");
        let expected = 2 + if began_again { 100 } else { 0 } + if was_seized { 10 } else { 0 };
        assert_eq!(*last, expected, "something that was written is missing");
    });
}

#[test]
fn in_every_order_one_of_them_gets_it_with_all_that_was_written() {
    one_of_them_gets_it_with_all_that_was_written(Variant::Correct);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_turn_passed_without_release_is_found() {
    one_of_them_gets_it_with_all_that_was_written(Variant::PassesRelaxed);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_turn_taken_without_acquire_is_found() {
    one_of_them_gets_it_with_all_that_was_written(Variant::TakesRelaxed);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_turn_taken_in_two_steps_is_found() {
    one_of_them_gets_it_with_all_that_was_written(Variant::TakesInTwoSteps);
}
