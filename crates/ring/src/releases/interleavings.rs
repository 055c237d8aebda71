//! Checks every order of the steps, and every value that the memory model lets a load see.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::handoff::{claim, give_back, offer, on_offer, take_back};
use super::{ENTRIES, Entry, Handoff, Patience, Releases, THEN, Taken, Word};

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

const RUNNING: u8 = 80;

/// Tries all orders with at most three preemptions: all orders would take minutes, and errors that
/// need more preemptions are rare (loom, `Builder::preemption_bound`).
fn all_orders(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

const LEFT: Handoff = Handoff { thread: 7, cpu: 0, priority: RUNNING, since: 0, turn: 2 };

/// A handoff and the priority that goes with it. The kernel's own word for the priority is no
/// weaker than this one.
struct Thread {
    handoff: AtomicU64,
    priority: AtomicU64,
}

impl Thread {
    fn asleep_at_the_running_level() -> Arc<Self> {
        let thread =
            Self { handoff: AtomicU64::new(0), priority: AtomicU64::new(u64::from(RUNNING)) };
        offer(&thread.handoff, LEFT);
        Arc::new(thread)
    }

    fn set(&self, priority: u8) {
        Word::store(&self.priority, priority.into());
    }

    /// Does what the next running thread does.
    fn is_lowered_to(&self, level: u8) {
        if let Some(seen) = on_offer(&self.handoff)
            && claim(&self.handoff, seen)
        {
            self.set(level);
            let _ = give_back(&self.handoff, seen, level);
        }
    }

    /// Does what the owner does. If `patient`, it waits however long for a thread that has claimed
    /// the handoff.
    fn rises(&self, patient: bool) -> Taken {
        let seen = on_offer(&self.handoff);
        if seen != Some(LEFT) {
            self.set(RUNNING);
        }
        let taken = take_back(&self.handoff, seen, || {
            thread::yield_now();
            patient
        });
        if taken != Taken::AsSeen {
            self.set(RUNNING);
        }
        taken
    }
}

#[test]
fn a_thread_that_took_its_handoff_back_keeps_its_priority() {
    all_orders(|| {
        let owner = Thread::asleep_at_the_running_level();
        let others = [40, 60].map(|level| {
            let owner = Arc::clone(&owner);
            thread::spawn(move || owner.is_lowered_to(level))
        });
        assert_ne!(owner.rises(true), Taken::InDoubt);
        assert_eq!(Word::load(&owner.priority), u64::from(RUNNING));
        for other in others {
            other.join().expect("no panic");
        }
        assert_eq!(Word::load(&owner.priority), u64::from(RUNNING), "nobody touched it since");
    });
}

#[test]
fn a_thread_that_does_not_wait_learns_that_its_priority_is_in_doubt() {
    all_orders(|| {
        let owner = Thread::asleep_at_the_running_level();
        let other = Arc::clone(&owner);
        let other = thread::spawn(move || other.is_lowered_to(40));
        let taken = owner.rises(false);
        other.join().expect("no panic");
        let kept = Word::load(&owner.priority) == u64::from(RUNNING);
        assert!(kept || taken == Taken::InDoubt, "{taken:?}");
        assert_eq!(on_offer(&owner.handoff), None, "what is given back too late is not on offer");
    });
}

/// A table of two slots.
struct Table([AtomicU64; 1 + 2 * ENTRIES + 2]);

impl Table {
    fn new() -> Self {
        let table = Self(std::array::from_fn(|_| AtomicU64::new(0)));
        table.releases().begin(0);
        table.releases().begin(1);
        table
    }

    fn releases(&self) -> Releases<'_, AtomicU64> {
        let (high, slots) = self.0.split_first().expect("some words");
        let (entries, handoff) = slots.split_at(2 * ENTRIES);
        Releases { high, entries, handoff }
    }
}

const WAITS: Entry = Entry { level: 40, from: 256 };

/// One thread lowers itself from the running level; the other sees that and runs at a lower level.
/// Asserts that the other always sees that a more urgent thread waits.
fn is_always_seen(publishes_first: bool) {
    all_orders(move || {
        let shared = Arc::new((Table::new(), AtomicU64::new(RUNNING.into())));
        let other = Arc::clone(&shared);
        let waiter = thread::spawn(move || {
            let (table, priority) = &*other;
            let publish = || table.releases().publish(1, Some(WAITS), [None; THEN]);
            let sink = || Word::store(priority, WAITS.level.into());
            if publishes_first {
                publish();
                sink();
            } else {
                sink();
                publish();
            }
        });
        let (table, priority) = &*shared;
        if Word::load(priority) < RUNNING.into() {
            let presses = Patience::new(0).runs_out(table.releases(), 20, 1_000);
            assert!(presses, "a waiter was overlooked");
        }
        waiter.join().expect("no panic");
    });
}

#[test]
fn a_thread_that_publishes_before_it_is_lowered_is_seen() {
    is_always_seen(true);
}

#[test]
#[should_panic(expected = "a waiter was overlooked")]
fn a_thread_that_is_lowered_before_it_publishes_is_overlooked() {
    is_always_seen(false);
}

#[test]
fn no_reader_sees_a_level_with_the_instant_of_another() {
    all_orders(|| {
        let table = Arc::new(Table::new());
        let later = Entry { level: 60, from: 512 };
        table.releases().publish(1, Some(WAITS), [None; THEN]);
        let other = Arc::clone(&table);
        let waiter = thread::spawn(move || {
            other.releases().publish(1, Some(later), [None; THEN]);
        });
        let deserved = table.releases().deserved(1, later.from - 1);
        assert!([Some(40), Some(60)].contains(&deserved), "{deserved:?}");
        waiter.join().expect("no panic");
    });
}
