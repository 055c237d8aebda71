//! Compares the queues with a list that is searched, and with two binary heaps.

use super::*;
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;
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

/// The distribution of keys.
#[derive(Clone, Copy, Debug)]
enum Keys {
    Near,
    Equal,
    FarApart,
    Extreme,
}

impl Keys {
    fn logical(self, rng: &mut ChaCha8Rng, now: u64) -> u64 {
        match self {
            Self::Near => now.saturating_add(rng.random_range(0..20)),
            Self::Equal => 1_000,
            Self::FarApart => now.saturating_add(1 << rng.random_range(0..64)),
            Self::Extreme => [0, 1, now, u64::MAX - 1, u64::MAX][rng.random_range(0..5)],
        }
    }

    fn bound(self, rng: &mut ChaCha8Rng, rank: u32) -> u64 {
        match self {
            Self::Near => 10 + 7 * u64::from(rank),
            Self::Equal => 50,
            Self::FarApart => 1 << rng.random_range(0..64),
            Self::Extreme => [1, u64::MAX][rng.random_range(0..2)],
        }
    }

    fn rank(self, rng: &mut ChaCha8Rng) -> u32 {
        match self {
            Self::Near | Self::FarApart => rng.random_range(0..3),
            Self::Equal => 7,
            Self::Extreme => [0, u32::MAX][rng.random_range(0..2)],
        }
    }

    fn step(self, rng: &mut ChaCha8Rng) -> u64 {
        match self {
            Self::Near => rng.random_range(0..4),
            Self::Equal => rng.random_range(0..20),
            Self::FarApart => 1 << rng.random_range(0..58),
            Self::Extreme => [0, 1, u64::MAX / 50][rng.random_range(0..3)],
        }
    }

    fn class(self, rng: &mut ChaCha8Rng, order: ServiceOrder, now: u64) -> Class {
        if rng.random_bool(0.2) {
            return Class::BestEffort;
        }
        let (rank, logical) = (self.rank(rng), ns(self.logical(rng, now)));
        let bound = Duration::from_nanos(self.bound(rng, rank));
        Class::RealTime { logical, urgency: order.urgency(Rank(rank), bound, logical) }
    }
}

fn any_order(rng: &mut ChaCha8Rng) -> ServiceOrder {
    if rng.random_bool(0.5) { ServiceOrder::Rank } else { ServiceOrder::Deadline }
}

/// All waiting items in the order of insertion, searched from the beginning each time.
#[derive(Default)]
struct SearchedList(Vec<(Class, u32)>);

impl SearchedList {
    fn count(&self, best_effort: bool) -> usize {
        self.0.iter().filter(|(class, _)| (*class == Class::BestEffort) == best_effort).count()
    }

    /// Returns the position of the first item: the least urgency; of equal ones the first inserted.
    fn first(&self, now: Instant) -> Option<usize> {
        let place = |class: &Class| match class {
            Class::RealTime { logical, .. } if *logical > now => None,
            Class::RealTime { urgency, .. } => Some((0, Some(*urgency))),
            Class::BestEffort => Some((1, None)),
        };
        let places = self.0.iter().enumerate();
        places.filter_map(|(at, (class, _))| Some((place(class)?, at))).min().map(|(_, at)| at)
    }

    fn next_current(&self, now: Instant) -> Option<Instant> {
        let logical = |(class, _): &(Class, u32)| match class {
            Class::RealTime { logical, .. } if *logical > now => Some(*logical),
            _ => None,
        };
        self.0.iter().filter_map(logical).min()
    }
}

#[test]
fn the_queues_serve_as_a_searched_list_does() {
    let mut served = 0;
    for seed in 0..10_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let keys = [Keys::Near, Keys::Equal, Keys::FarApart, Keys::Extreme][seed as usize % 4];
        let order = any_order(&mut rng);
        let (room, best_effort_room) = (rng.random_range(1..40), rng.random_range(0..4));
        let pushes = rng.random_range(0.4..0.8);
        let mut queues = ThreeQueues::new(room, best_effort_room);
        let mut list = SearchedList::default();
        let mut now = 0u64;
        for item in 0..100 {
            now = now.saturating_add(keys.step(&mut rng));
            if rng.random_bool(0.1) {
                // Any item of a channel, or one that is not there.
                let of_channels = |(class, _): &&(Class, u32)| *class != Class::BestEffort;
                let count = list.0.iter().filter(of_channels).count();
                let which = list.0.iter().filter(of_channels).nth(rng.random_range(0..=count));
                let which = which.map(|(_, item)| *item);
                assert_eq!(queues.remove(|item| Some(*item) == which), which, "seed {seed}");
                list.0.retain(|(_, item)| Some(*item) != which);
            } else if rng.random_bool(pushes) {
                let class = keys.class(&mut rng, order, now);
                let has_room = match class {
                    Class::BestEffort => list.count(true) < best_effort_room,
                    Class::RealTime { .. } => list.count(false) < room,
                };
                assert_eq!(queues.push(ns(now), class, item).is_ok(), has_room, "seed {seed}");
                if has_room {
                    list.0.push((class, item));
                }
            } else {
                let first = list.first(ns(now));
                assert_eq!(queues.is_waiting(ns(now)), first.is_some(), "seed {seed}");
                let item = first.map(|at| list.0.remove(at).1);
                assert_eq!(queues.pop(ns(now)), item, "seed {seed} {keys:?} at {now}");
                assert_eq!(queues.next_current(), list.next_current(ns(now)), "seed {seed}");
                served += u32::from(item.is_some());
            }
        }
    }
    assert!(served > 200_000, "{served}");
}

/// Current items, and early items before their logical arrivals, in two binary heaps.
#[derive(Default)]
struct TwoHeaps {
    current: BinaryHeap<Reverse<(Urgency, u64, u32)>>,
    early: BinaryHeap<Reverse<(Instant, Urgency, u64, u32)>>,
}

impl TwoHeaps {
    fn pop(&mut self, now: Instant) -> Option<u32> {
        while self.early.peek().is_some_and(|Reverse((logical, ..))| *logical <= now) {
            let Reverse((_, urgency, pushed, item)) = self.early.pop()?;
            self.current.push(Reverse((urgency, pushed, item)));
        }
        self.current.pop().map(|Reverse((.., item))| item)
    }
}

#[test]
fn thousands_of_channels_are_served_as_two_binary_heaps_do() {
    for seed in 0..20 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let order = any_order(&mut rng);
        // With few different keys there are many equal ones.
        let spread = [5, 1_000, 1 << 40][seed as usize % 3];
        let (mut queues, mut heaps) = (ThreeQueues::new(3_000, 0), TwoHeaps::default());
        let mut now = 0;
        for pushed in 0..20_000u32 {
            now += rng.random_range(0..spread / 2_000 + 2);
            let logical = ns(now + rng.random_range(0..spread));
            let bound = Duration::from_nanos(rng.random_range(1..spread));
            let urgency = order.urgency(Rank(rng.random_range(0..1_000)), bound, logical);
            if queues.push(ns(now), Class::RealTime { logical, urgency }, pushed).is_ok() {
                heaps.early.push(Reverse((logical, urgency, u64::from(pushed), pushed)));
            }
            if rng.random_bool(0.8) {
                assert_eq!(queues.pop(ns(now)), heaps.pop(ns(now)), "seed {seed}");
            }
        }
        while let Some(item) = heaps.pop(Instant::MAX) {
            assert_eq!(queues.pop(Instant::MAX), Some(item), "seed {seed}");
        }
        assert_eq!(queues.pop(Instant::MAX), None);
    }
}

#[test]
fn room_is_given_once() {
    let mut queues = ThreeQueues::new(100, 0);
    let room = |queues: &ThreeQueues<u64>| (queues.items.capacity(), queues.free.capacity());
    let (before, mut now) = (room(&queues), 0);
    for round in 0..50 {
        for item in 0..100 {
            let logical = ns(now + item * (round % 7));
            let urgency = ServiceOrder::Rank.urgency(Rank(item as u32), Duration::MAX, logical);
            queues.push(ns(now), Class::RealTime { logical, urgency }, item).expect("room");
        }
        now += 1_000;
        assert_eq!(core::iter::from_fn(|| queues.pop(ns(now))).count(), 100);
    }
    assert_eq!(room(&queues), before);
    assert_eq!(queues.items.len(), 100);
}
