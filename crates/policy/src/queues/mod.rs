//! The three queues: current, best effort, early.

mod heap;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Rank};

use heap::{NOBODY, PlaceHeap};

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
/// An operation costs O(log n), but for [`remove`](Self::remove); each item moves from 3 to 1 once.
#[derive(Clone, Debug)]
pub struct ThreeQueues<T> {
    /// By the first part of the urgency; the rest decides between equal ones.
    current: PlaceHeap,
    best_effort: VecDeque<T>,
    /// By logical arrival. The order of equal ones does not matter: they become current together.
    early: PlaceHeap,
    /// What the heaps have the numbers of, and where each stands in the order.
    items: Vec<Option<T>>,
    orders: Vec<Order>,
    /// The last one freed goes first: it is in the cache.
    free: Vec<u32>,
    real_time_room: usize,
    best_effort_room: usize,
    /// Makes equal ones leave as they came.
    pushed: u64,
}

/// Where an item of a channel stands, current or early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Order {
    urgency: Urgency,
    pushed: u64,
}

impl<T> ThreeQueues<T> {
    /// Empty queues with room for so many items of channels (1 and 3 together) and of best effort;
    /// for channels never more than 2³² − 1.
    pub fn new(real_time_room: usize, best_effort_room: usize) -> Self {
        let real_time_room = real_time_room.min(NOBODY as usize);
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

    /// Takes the item that goes first at `now`; what arrives at this very instant is current.
    #[must_use]
    pub fn pop(&mut self, now: Instant) -> Option<T> {
        while self.next_current().is_some_and(|at| at <= now) {
            let Some(due) = self.early.first() else { break };
            // Looked up first: a cache miss goes on while the heap is put in order.
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

    /// Takes out the item of a channel that `is` the one, wherever it stands: O(n). Of several, any.
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

    /// When the next early item becomes current.
    pub fn next_current(&self) -> Option<Instant> {
        self.early.first_key().map(Instant::from_nanos)
    }

    /// Whether [`pop`](Self::pop) at `now` would give an item.
    pub fn is_waiting(&self, now: Instant) -> bool {
        !self.current.is_empty()
            || !self.best_effort.is_empty()
            || self.next_current().is_some_and(|at| at <= now)
    }
}

/// Of two items whose urgency begins alike.
#[cold]
fn goes_first(orders: &[Order], a: u32, b: u32) -> bool {
    orders[a as usize] < orders[b as usize]
}
