//! The three queues: current, best effort, early.

use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::{Ordering, Reverse};

use punctual_model::{Duration, Instant, Rank};

/// In which order real-time work is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceOrder {
    /// By the rank of the channel, as admission ranked them.
    Rank,
    /// By absolute deadline (real-time channels, §2.2), of equal ones by rank.
    Deadline,
}

/// A place in the order: less goes first, equal ones as they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Urgency(u64, u64);

impl ServiceOrder {
    /// Of a message of a channel with this `rank` and `delay_bound`.
    pub fn urgency(self, rank: Rank, delay_bound: Duration, logical: Instant) -> Urgency {
        let rank = u64::from(rank.0);
        match self {
            Self::Rank => Urgency(rank, logical.as_nanos()),
            Self::Deadline => Urgency(logical.saturating_add(delay_bound).as_nanos(), rank),
        }
    }
}

/// What is known of an item that is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Of a channel.
    RealTime {
        /// Before that it is early.
        logical: Instant,
        /// Its place among the current ones.
        urgency: Urgency,
    },
    /// Without a promise.
    BestEffort,
}

/// There is no room; the item comes back.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full<T>(pub T);

/// The three queues of real-time channels, §2.2: 1, current, the most urgent first; 2, best effort,
/// first come first served; 3, early, which only waits for its logical arrival. The paper lets
/// early packets go when nothing else waits; here they are held, as its own delay bounds assume
/// (`docs/channel-bounds.md`, A1).
///
/// An operation costs O(log n); each item moves from 3 to 1 once.
#[derive(Clone, Debug)]
pub struct ThreeQueues<T> {
    current: BinaryHeap<Reverse<Entry<T>>>,
    best_effort: VecDeque<T>,
    early: BinaryHeap<Reverse<Early<T>>>,
    real_time_room: usize,
    best_effort_room: usize,
    /// Makes equal ones leave as they came.
    pushed: u64,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    urgency: Urgency,
    pushed: u64,
    item: T,
}

#[derive(Clone, Debug)]
struct Early<T> {
    logical: Instant,
    entry: Entry<T>,
}

impl<T> ThreeQueues<T> {
    /// Empty queues with room for so many items of channels (1 and 3 together) and of best effort.
    pub fn new(real_time_room: usize, best_effort_room: usize) -> Self {
        Self {
            current: BinaryHeap::with_capacity(real_time_room),
            best_effort: VecDeque::with_capacity(best_effort_room),
            early: BinaryHeap::with_capacity(real_time_room),
            real_time_room,
            best_effort_room,
            pushed: 0,
        }
    }

    /// Queues `item` at `now`.
    pub fn push(&mut self, now: Instant, class: Class, item: T) -> Result<(), Full<T>> {
        let Class::RealTime { logical, urgency } = class else {
            if self.best_effort.len() >= self.best_effort_room {
                return Err(Full(item));
            }
            self.best_effort.push_back(item);
            return Ok(());
        };
        if self.current.len() + self.early.len() >= self.real_time_room {
            return Err(Full(item));
        }
        self.pushed += 1;
        let entry = Entry { urgency, pushed: self.pushed, item };
        if logical <= now {
            self.current.push(Reverse(entry));
        } else {
            self.early.push(Reverse(Early { logical, entry }));
        }
        Ok(())
    }

    /// Takes the item that goes first at `now`; what arrives at this very instant is current.
    #[must_use]
    pub fn pop(&mut self, now: Instant) -> Option<T> {
        while let Some(due) = self.early.pop_if_first(|early| early.logical <= now) {
            self.current.push(Reverse(due.entry));
        }
        match self.current.pop() {
            Some(Reverse(entry)) => Some(entry.item),
            None => self.best_effort.pop_front(),
        }
    }

    /// When the next early item becomes current.
    pub fn next_current(&self) -> Option<Instant> {
        self.early.peek().map(|Reverse(early)| early.logical)
    }

    /// Whether [`pop`](Self::pop) at `now` would give an item.
    pub fn is_waiting(&self, now: Instant) -> bool {
        !self.current.is_empty()
            || !self.best_effort.is_empty()
            || self.next_current().is_some_and(|at| at <= now)
    }
}

trait PopIf<T> {
    fn pop_if_first(&mut self, take: impl Fn(&T) -> bool) -> Option<T>;
}

impl<T: Ord> PopIf<T> for BinaryHeap<Reverse<T>> {
    fn pop_if_first(&mut self, take: impl Fn(&T) -> bool) -> Option<T> {
        if self.peek().is_some_and(|Reverse(first)| take(first)) {
            return self.pop().map(|Reverse(first)| first);
        }
        None
    }
}

impl<T> Entry<T> {
    fn key(&self) -> (Urgency, u64) {
        (self.urgency, self.pushed)
    }
}

impl<T> Early<T> {
    fn key(&self) -> (Instant, (Urgency, u64)) {
        (self.logical, self.entry.key())
    }
}

macro_rules! ordered_by_key {
    ($name:ident) => {
        impl<T> PartialEq for $name<T> {
            fn eq(&self, other: &Self) -> bool {
                self.key() == other.key()
            }
        }
        impl<T> Eq for $name<T> {}
        impl<T> PartialOrd for $name<T> {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
        impl<T> Ord for $name<T> {
            fn cmp(&self, other: &Self) -> Ordering {
                self.key().cmp(&other.key())
            }
        }
    };
}
ordered_by_key!(Entry);
ordered_by_key!(Early);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn ns(n: u64) -> Instant {
        Instant::from_nanos(n)
    }

    #[test]
    fn early_items_wait_even_if_nothing_else_does() {
        let mut queues = ThreeQueues::new(2, 1);
        let bound = Duration::from_nanos(100);
        let class = |logical| Class::RealTime {
            logical: ns(logical),
            urgency: ServiceOrder::Deadline.urgency(Rank(0), bound, ns(logical)),
        };
        assert_eq!(queues.push(ns(0), class(5), 'e'), Ok(()));
        assert_eq!(queues.push(ns(0), Class::BestEffort, 'b'), Ok(()));
        assert_eq!(queues.push(ns(0), Class::BestEffort, 'x'), Err(Full('x')));
        assert_eq!(queues.push(ns(0), class(0), 'c'), Ok(()));
        assert_eq!(queues.push(ns(0), class(0), 'x'), Err(Full('x')));
        assert_eq!(queues.pop(ns(4)), Some('c'));
        assert_eq!(queues.pop(ns(4)), Some('b'));
        assert!(!queues.is_waiting(ns(4)));
        assert_eq!((queues.pop(ns(4)), queues.next_current()), (None, Some(ns(5))));
        assert_eq!((queues.pop(ns(5)), queues.next_current()), (Some('e'), None));
    }

    /// Against a list that is searched from its beginning each time.
    #[test]
    fn the_queues_serve_as_a_searched_list_does() {
        for seed in 0..300 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let order =
                if rng.random_bool(0.5) { ServiceOrder::Rank } else { ServiceOrder::Deadline };
            let mut queues = ThreeQueues::new(8, 4);
            let mut list: Vec<(Class, u32)> = Vec::new();
            let mut now = 0;
            for item in 0..200 {
                now += rng.random_range(0..4);
                if rng.random_bool(0.6) {
                    let rank = rng.random_range(0..3);
                    let logical = ns(now + rng.random_range(0..20));
                    let bound = Duration::from_nanos(10 + 7 * u64::from(rank));
                    let class = if rng.random_bool(0.3) {
                        Class::BestEffort
                    } else {
                        Class::RealTime {
                            logical,
                            urgency: order.urgency(Rank(rank), bound, logical),
                        }
                    };
                    let of_best_effort =
                        list.iter().filter(|(c, _)| *c == Class::BestEffort).count();
                    let has_room = match class {
                        Class::BestEffort => of_best_effort < 4,
                        Class::RealTime { .. } => list.len() - of_best_effort < 8,
                    };
                    assert_eq!(queues.push(ns(now), class, item).is_ok(), has_room);
                    if has_room {
                        list.push((class, item));
                    }
                } else {
                    let place = |class: &Class| match class {
                        Class::RealTime { logical, .. } if *logical > ns(now) => None,
                        Class::RealTime { urgency, .. } => Some((0, Some(*urgency))),
                        Class::BestEffort => Some((1, None)),
                    };
                    // The least place; of equal ones the first pushed.
                    let first = list
                        .iter()
                        .enumerate()
                        .filter_map(|(at, (class, _))| Some((place(class)?, at)))
                        .min();
                    assert_eq!(queues.is_waiting(ns(now)), first.is_some());
                    assert_eq!(queues.pop(ns(now)), first.map(|(_, at)| list.remove(at).1));
                }
            }
        }
    }
}
