//! A bounded queue from one producer to one consumer that never waits.
//!
//! The producer is a real-time thread: when the queue is full it drops the item and counts the
//! loss, rather than wait for a consumer that may not get the CPU. Both sides are wait-free, make
//! no system call and allocate nothing after [`channel`].
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The smallest page size, in bytes.
const PAGE: usize = 4096;

/// Keeps the two ends' counters on cache lines of their own.
#[repr(align(128))]
struct Padded(AtomicU64);

struct Shared<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// The number of items pushed so far; only the producer writes it.
    pushed: Padded,
    /// The number of items popped so far; only the consumer writes it.
    popped: Padded,
    /// The number of items dropped so far because the queue was full; only the producer writes it.
    lost: Padded,
}

// SAFETY: the slots are the only part without its own synchronisation. The one producer writes the
// slot of index i = `pushed` only when it has acquired a `popped` with i < popped + capacity, so
// that the consumer is done with the item that lay there; the one consumer reads the slot of
// index i = `popped` only when it has acquired a `pushed` above i, so that it has been written.
// `T: Copy + Send`, so an item may move to the other thread and needs no drop.
unsafe impl<T: Copy + Send> Sync for Shared<T> {}
// SAFETY: as above; all parts may be moved between threads when `T` may.
unsafe impl<T: Copy + Send> Send for Shared<T> {}

/// The end that puts items in.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    /// The last value of `popped` that this end has read: it saves reading the other end's cache
    /// line each time.
    popped_seen: u64,
}

/// The end that takes items out.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
}

/// Creates a queue for `capacity` items, rounded up to a power of two.
///
/// # Panics
/// If there is no memory for it.
pub fn channel<T: Copy + Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let capacity = capacity.max(1).next_power_of_two();
    let slots: Box<[_]> =
        (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::<T>::uninit())).collect();
    if size_of::<T>() > 0 {
        // Touch every page, so that the producer's first writes cause no page fault.
        for slot in slots.iter().step_by((PAGE / size_of::<T>()).max(1)) {
            // SAFETY: the slot is at least a byte long, no other thread has it yet, and an
            // uninitialised slot may hold any byte.
            unsafe { slot.get().cast::<u8>().write_volatile(0) };
        }
    }
    let zero = || Padded(AtomicU64::new(0));
    let shared = Arc::new(Shared { slots, pushed: zero(), popped: zero(), lost: zero() });
    (Producer { shared: Arc::clone(&shared), popped_seen: 0 }, Consumer { shared })
}

impl<T> Shared<T> {
    fn slot(&self, index: u64) -> &UnsafeCell<MaybeUninit<T>> {
        // The length is a power of two.
        &self.slots[index as usize & (self.slots.len() - 1)]
    }
}

impl<T: Copy + Send> Producer<T> {
    /// Puts `item` in. If the queue is full, drops it, counts the loss and returns `false`.
    pub fn push(&mut self, item: T) -> bool {
        self.push_leaving(item, 0)
    }

    /// Puts `item` in if room for `spare` more items stays; else drops it, counts the loss and
    /// returns `false`. The last slots can thus be kept for more important items.
    ///
    /// ```
    /// let (mut producer, mut consumer) = punctual_ring::spsc::channel(4);
    /// assert!((0..3).all(|n| producer.push_leaving(n, 1)));
    /// assert!(!producer.push_leaving(3, 1), "the last place is not for it");
    /// assert!(producer.push(4));
    /// assert_eq!(consumer.lost(), 1);
    /// assert_eq!(consumer.pop(), Some(0));
    /// ```
    pub fn push_leaving(&mut self, item: T, spare: usize) -> bool {
        let pushed = self.shared.pushed.0.load(Ordering::Relaxed);
        let usable = self.shared.slots.len().saturating_sub(spare) as u64;
        if pushed - self.popped_seen >= usable {
            self.popped_seen = self.shared.popped.0.load(Ordering::Acquire);
            if pushed - self.popped_seen >= usable {
                self.shared.lost.0.fetch_add(1, Ordering::Relaxed);
                return false;
            }
        }
        // SAFETY: fewer than `capacity` items are unread, so the consumer is done with this slot
        // (its release of `popped` was acquired above), and no other producer exists
        // (`&mut self`, not Clone).
        unsafe { (*self.shared.slot(pushed).get()).write(item) };
        self.shared.pushed.0.store(pushed + 1, Ordering::Release);
        true
    }
}

impl<T: Copy + Send> Consumer<T> {
    /// Takes the oldest item out, if there is one.
    pub fn pop(&mut self) -> Option<T> {
        let popped = self.shared.popped.0.load(Ordering::Relaxed);
        if popped == self.shared.pushed.0.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: `popped < pushed`, so the producer wrote this slot before its release of
        // `pushed`, acquired above, and will not write it again before `popped` moves past it.
        let item = unsafe { (*self.shared.slot(popped).get()).assume_init() };
        self.shared.popped.0.store(popped + 1, Ordering::Release);
        Some(item)
    }

    /// Returns the number of items dropped so far because the queue was full.
    pub fn lost(&self) -> u64 {
        self.shared.lost.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_out_in_order_and_what_does_not_fit_is_counted() {
        let (mut producer, mut consumer) = channel(4);
        for i in 0..6 {
            assert_eq!(producer.push(i), i < 4);
        }
        assert_eq!(consumer.lost(), 2);
        for i in 0..4 {
            assert_eq!(consumer.pop(), Some(i));
        }
        assert_eq!(consumer.pop(), None);
        assert!(producer.push(9));
        assert_eq!(consumer.pop(), Some(9));
    }

    #[test]
    fn between_two_threads_every_item_arrives_once_or_is_counted_lost() {
        const ITEMS: u64 = 200_000;
        let (mut producer, mut consumer) = channel(64);
        let sender = std::thread::spawn(move || (0..ITEMS).filter(|i| producer.push(*i)).count());
        let mut received = Vec::new();
        while !sender.is_finished() {
            while let Some(item) = consumer.pop() {
                received.push(item);
            }
        }
        while let Some(item) = consumer.pop() {
            received.push(item);
        }
        let sent = sender.join().expect("sender");
        assert_eq!(received.len(), sent);
        assert!(received.is_sorted());
        assert_eq!(consumer.lost(), ITEMS - sent as u64);
    }
}
