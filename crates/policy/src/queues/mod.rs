//! The three queues: current, best effort, early.

mod heap;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Rank};

use heap::{NO_PLACE, PlaceHeap};

/// The order in which real-time work is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceOrder {
    /// By the rank of the channel that admission assigned.
    Rank,
    /// By absolute deadline (real-time channels, §2.2), of equal ones by rank.
    Deadline,
}

/// A position in the order: the least goes first, equal ones in the order of insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Urgency(u64, u64);

impl ServiceOrder {
    /// Returns the urgency of a message of a channel with this `rank` and `delay_bound`.
    pub fn urgency(self, rank: Rank, delay_bound: Duration, logical: Instant) -> Urgency {
        let rank = u64::from(rank.0);
        match self {
            Self::Rank => Urgency(rank, logical.as_nanos()),
            Self::Deadline => Urgency(logical.saturating_add(delay_bound).as_nanos(), rank),
        }
    }
}

/// The class of an item that is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A message of a channel with a delay bound.
    RealTime {
        /// The message is early before this time.
        logical: Instant,
        /// Its position among the current ones.
        urgency: Urgency,
    },
    /// A message without a promise.
    BestEffort,
}

/// The queue is full; holds the rejected item.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full<T>(pub T);

/// The three queues of real-time channels, §2.2: 1, current, the most urgent first; 2, best effort,
/// first come first served; 3, early, which only wait for their logical arrival. The paper lets
/// early packets go when nothing else waits; here they are held, as the paper's own delay bounds
/// assume (`docs/channel-bounds.md`, A1).
///
/// An operation costs O(log n), except [`remove`](Self::remove); each item moves from 3 to 1 once.
#[derive(Clone, Debug)]
pub struct ThreeQueues<T> {
    /// By the first part of the urgency; the rest decides between equal ones.
    current: PlaceHeap,
    best_effort: VecDeque<T>,
    /// By logical arrival. The order of equal ones does not matter: they become current together.
    early: PlaceHeap,
    /// The items to which the heaps' numbers refer, and their positions in the order.
    items: Vec<Option<T>>,
    orders: Vec<Order>,
    /// The last freed place is reused first, because it is in the cache.
    free: Vec<u32>,
    real_time_room: usize,
    best_effort_room: usize,
    /// Makes equal items leave in the order of insertion.
    pushed: u64,
}

/// The position of a channel's item, current or early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Order {
    urgency: Urgency,
    pushed: u64,
}

impl<T> ThreeQueues<T> {
    /// Makes empty queues with room for so many items of channels (1 and 3 together) and of best
    /// effort; for channels at most 2³² − 1.
    pub fn new(real_time_room: usize, best_effort_room: usize) -> Self {
        let real_time_room = real_time_room.min(NO_PLACE as usize);
        Self {
            current: PlaceHeap::with_capacity(real_time_room),
            best_effort: VecDeque::with_capacity(best_effort_room),
            early: PlaceHeap::with_capacity(real_time_room),
            items: Vec::with_capacity(real_time_room),
            orders: Vec::with_capacity(real_time_room),
            free: Vec::with_capacity(real_time_room),
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
        let order = Order { urgency, pushed: self.pushed };
        let place = match self.free.pop() {
            Some(place) => {
                self.items[place as usize] = Some(item);
                self.orders[place as usize] = order;
                place
            }
            None => {
                self.items.push(Some(item));
                self.orders.push(order);
                // Below the room.
                (self.items.len() - 1) as u32
            }
        };
        if logical <= now {
            self.current.push(urgency.0, place, |a, b| goes_first(&self.orders, a, b));
        } else {
            self.early.push(logical.as_nanos(), place, |_, _| false);
        }
        Ok(())
    }

    /// Removes and returns the first item at `now`. An item that arrives at this very instant is
    /// current.
    #[must_use]
    pub fn pop(&mut self, now: Instant) -> Option<T> {
        while self.next_current().is_some_and(|at| at <= now) {
            let Some(due) = self.early.first() else { break };
            // Read first, so that the cache miss overlaps with the reordering of the heap.
            let order = self.orders[due as usize];
            self.early.remove_first();
            self.early.close(|_, _| false);
            self.current.push(order.urgency.0, due, |a, b| goes_first(&self.orders, a, b));
        }
        self.current.close(|a, b| goes_first(&self.orders, a, b));
        let Some(place) = self.current.first() else {
            return self.best_effort.pop_front();
        };
        let item = self.items[place as usize].take();
        self.current.remove_first();
        self.free.push(place);
        item
    }

    /// Removes a channel's item for which `is` returns true, in either queue: O(n). If there are
    /// several, any of them.
    pub fn remove(&mut self, is: impl Fn(&T) -> bool) -> Option<T> {
        let place = self.items.iter().position(|item| item.as_ref().is_some_and(&is))?;
        // Below the room.
        let number = place as u32;
        let was_there = self.early.remove(number, |_, _| false)
            || self.current.remove(number, |a, b| goes_first(&self.orders, a, b));
        debug_assert!(was_there, "what is queued is in one of them");
        self.free.push(number);
        self.items[place].take()
    }

    /// Returns the time at which the next early item becomes current.
    pub fn next_current(&self) -> Option<Instant> {
        self.early.first_key().map(Instant::from_nanos)
    }

    /// Returns true if [`pop`](Self::pop) at `now` would return an item.
    pub fn is_waiting(&self, now: Instant) -> bool {
        !self.current.is_empty()
            || !self.best_effort.is_empty()
            || self.next_current().is_some_and(|at| at <= now)
    }
}

/// Compares two items with the same first part of the urgency.
#[cold]
fn goes_first(orders: &[Order], a: u32, b: u32) -> bool {
    orders[a as usize] < orders[b as usize]
}
