//! When a client that waits for room is woken.

use punctual_model::{Duration, Instant};
use punctual_ring::frames::Wake;

use crate::rings::Takes;
use crate::server::ringer::Notifier;

/// Part of the slots that are free when it is woken, however soon after the last time.
const PART: u64 = 4;

/// After so long it is woken for any room.
const PATIENCE: Duration = Duration::from_millis(1);

/// Slots that were given back while the client waits for some.
///
/// To wake it for each would cost it and us more than the message that it puts in: a client that
/// writes faster than its messages leave would sleep and be woken once a message. It waits with a full
/// queue, so there is always another slot to be given back, and at that time it is told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    /// It sleeps and was not woken.
    owed: bool,
    /// Since it was found asleep.
    freed: u64,
    woken: Instant,
}

impl Room {
    /// Gives slots back, and wakes the client if that is due.
    pub(super) fn release(&mut self, now: Instant, takes: &mut Takes, bell: &Notifier, count: u64) {
        // Whoever is found asleep is told of once.
        if takes.release(count) == Wake::Ring {
            (self.owed, self.freed) = (true, 0);
        }
        self.freed = self.freed.saturating_add(count);
        let part = u64::from(takes.geometry().slots()) / PART;
        if self.owed && (self.freed >= part || now.saturating_since(self.woken) >= PATIENCE) {
            self.tell(now, bell);
        }
    }

    /// Wakes the client if it is still to be woken: nothing more is given back for now.
    pub(super) fn tell(&mut self, now: Instant, bell: &Notifier) {
        if std::mem::take(&mut self.owed) {
            self.woken = now;
            bell.ring();
        }
    }
}
