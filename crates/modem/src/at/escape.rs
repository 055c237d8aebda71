//! The escape to command state during a call: silence, three escape characters, silence.
//!
//! With `g` the guard time (S12), the sequence counts if
//! - at least `g` passed between the previous byte and its first character,
//! - less than `g` passed between one character and the next,
//! - and `g` passes after the third without any byte. At the very instant when it is over the
//!   escape holds, so a byte that comes then already belongs to a command.
//!
//! All three characters are data too and travel to the far end, because the modem cannot know in
//! time whether they will be an escape. With a guard time of zero, any three characters in a row
//! escape at once.

use punctual_model::{Duration, Instant};

/// Watches the bytes that a terminal sends during a call.
#[derive(Clone, Copy, Debug)]
pub struct Escape {
    last: Instant,
    seen: u8,
}

impl Escape {
    /// Starts to watch at `now`, as if a byte had just come.
    pub fn new(now: Instant) -> Self {
        Self { last: now, seen: 0 }
    }

    /// Takes a byte. `escape` is S2 if it names a character, `guard` is S12. Call
    /// [`Escape::is_over`] first: a byte that comes too early ends the sequence.
    pub fn byte(&mut self, now: Instant, byte: u8, escape: Option<u8>, guard: Duration) {
        let gap = now.saturating_since(self.last);
        self.last = now;
        self.seen = if Some(byte) != escape {
            0
        } else if self.seen > 0 && self.seen < 3 && (gap < guard || guard == Duration::ZERO) {
            self.seen + 1
        } else {
            // A fourth character is one too many, unless the silence before it makes it a first
            // again.
            u8::from(gap >= guard)
        };
    }

    /// Returns the time at which the sequence will be complete if no other byte comes.
    pub fn due(&self, guard: Duration) -> Option<Instant> {
        (self.seen == 3).then(|| self.last.saturating_add(guard))
    }

    /// Returns true if the sequence is complete at `now`.
    pub fn is_over(&self, now: Instant, guard: Duration) -> bool {
        self.due(guard).is_some_and(|due| due <= now)
    }
}
