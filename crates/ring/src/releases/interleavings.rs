//! Every order of the steps, and every value that the memory model lets a load see.

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

/// With at most three preemptions: all orders would take minutes, and errors that need more of them
/// are rare (loom, `Builder::preemption_bound`).
fn all_orders(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

const LEFT: Handoff = Handoff { thread: 7, cpu: 0, priority: RUNNING, since: 0, turn: 2 };

/// The reins and the priority that goes with them; the kernel's own word is no weaker than this.
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

    /// What whoever runs next does.
    fn is_lowered_to(&self, level: u8) {
        if let Some(seen) = on_offer(&self.handoff)
            && claim(&self.handoff, seen)
        {
            self.set(level);
            let _ = give_back(&self.handoff, seen, level);
        }
    }

    /// What its owner does. `patient` if it waits for whoever has the reins, however long.
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
fn whoever_has_taken_his_reins_back_keeps_his_priority() {
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
fn whoever_does_not_wait_knows_that_he_is_in_doubt() {
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

/// One sinks from the ceiling; the other sees that he is down and runs at a lower level. Whether
/// he always sees that somebody more urgent waits.
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
fn whoever_publishes_before_he_sinks_is_not_overlooked() {
    is_always_seen(true);
}

#[test]
#[should_panic(expected = "a waiter was overlooked")]
fn whoever_sinks_before_he_publishes_is_overlooked() {
    is_always_seen(false);
}

#[test]
fn nobody_sees_a_level_with_another_ones_instant() {
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
