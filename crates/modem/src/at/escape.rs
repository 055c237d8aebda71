//! The way back to commands during a call: silence, three escape characters, silence.
//!
//! With `g` the guard time (S12), the sequence counts if
//! - at least `g` passed between the byte before it and its first character,
//! - less than `g` between one character and the next,
//! - and `g` passes after the third without any byte: at the very instant it is over, the escape
//!   holds, so a byte that comes then is a command's already.
//!
//! All three characters are data too and travel to the far end, for nobody knows in time what they
//! will be. With a guard time of zero, any three characters in a row escape at once.

use punctual_model::{Duration, Instant};

/// Watches the bytes that a terminal sends during a call.
#[derive(Clone, Copy, Debug)]
pub struct Escape {
    last: Instant,
    seen: u8,
}

impl Escape {
    /// Begins to watch at `now`, as if a byte had just come.
    pub fn new(now: Instant) -> Self {
        Self { last: now, seen: 0 }
    }

    /// Takes a byte. `escape` is S2 if it names a character, `guard` is S12. Call
    /// [`Escape::is_over`] first: a byte ends a sequence that it comes too early for.
    pub fn byte(&mut self, now: Instant, byte: u8, escape: Option<u8>, guard: Duration) {
        let gap = now.saturating_since(self.last);
        self.last = now;
        self.seen = if Some(byte) != escape {
            0
        } else if self.seen > 0 && self.seen < 3 && (gap < guard || guard == Duration::ZERO) {
            self.seen + 1
        } else {
            // After three it is one too many, unless the silence before makes it a first again.
            u8::from(gap >= guard)
        };
    }

    /// When the sequence will be complete if nothing else comes.
    pub fn due(&self, guard: Duration) -> Option<Instant> {
        (self.seen == 3).then(|| self.last.saturating_add(guard))
    }

    /// Whether the sequence is complete at `now`.
    pub fn is_over(&self, now: Instant, guard: Duration) -> bool {
        self.due(guard).is_some_and(|due| due <= now)
    }
}
