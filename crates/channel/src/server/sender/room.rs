//! Decides when a client that waits for room is woken.

use punctual_model::{Duration, Instant};
use punctual_ring::frames::Wake;

use crate::rings::Takes;
use crate::server::ringer::Notifier;

/// The client is woken when one slot in so many is free, however soon after the last time.
const PART: u64 = 4;

/// The time after which the client is woken for any room.
const PATIENCE: Duration = Duration::from_millis(1);

/// The slots that were given back while the client waits for some.
///
/// Waking the client for each slot would cost more than the message that it puts in: a client that
/// writes faster than its messages leave would sleep and be woken once a message. It waits with a
/// full queue, so another slot is always given back later, and it is woken then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    /// True if the client sleeps and was not woken.
    owed: bool,
    /// The slots given back since the client was found asleep.
    freed: u64,
    woken: Instant,
}

impl Room {
    /// Gives slots back, and wakes the client if that is due.
    pub(super) fn release(&mut self, now: Instant, takes: &mut Takes, bell: &Notifier, count: u64) {
        // The ring reports a sleeping client once.
        if takes.release(count) == Wake::Ring {
            (self.owed, self.freed) = (true, 0);
        }
        self.freed = self.freed.saturating_add(count);
        let part = u64::from(takes.geometry().slots()) / PART;
        if self.owed && (self.freed >= part || now.saturating_since(self.woken) >= PATIENCE) {
            self.wake(now, bell);
        }
    }

    /// Wakes the client if it is still to be woken: no more slots are given back for now.
    pub(super) fn wake(&mut self, now: Instant, bell: &Notifier) {
        if std::mem::take(&mut self.owed) {
            self.woken = now;
            bell.ring();
        }
    }
}
