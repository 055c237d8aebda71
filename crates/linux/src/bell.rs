//! A sleep until an instant that other threads can end, as often as they like.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use punctual_model::time::Instant;
use rustix::thread::futex;

use crate::clock;

/// Counts its rings. [`crate::park::Park`] is for one who is woken once and for ever.
///
/// FUTEX_WAIT_BITSET (futex(2)): its time-out is absolute CLOCK_MONOTONIC and runs off the same
/// high-resolution timer as clock_nanosleep(2). Ringing takes no lock, so that a thread of any
/// priority may ring for one of any other.
#[derive(Debug, Default)]
pub struct Bell {
    rings: AtomicU32,
}

impl Bell {
    /// Nobody has rung.
    pub const fn new() -> Self {
        Self { rings: AtomicU32::new(0) }
    }

    /// How often it was rung, modulo 2³². What was written before a ring that this counts can be
    /// read after.
    pub fn rings(&self) -> u32 {
        self.rings.load(Ordering::Acquire)
    }

    /// Rings, and wakes who sleeps.
    pub fn ring(&self) {
        self.rings.fetch_add(1, Ordering::Release);
        let _ = futex::wake(&self.rings, futex::Flags::PRIVATE, u32::MAX >> 1);
    }

    /// Sleeps until [`clock::now`] is at least `until`, or until it was rung more than `seen` times.
    /// Whether the time came.
    pub fn sleep_until(&self, seen: u32, until: Instant) -> bool {
        let timeout = clock::timespec(until.as_nanos());
        // The end of time is beyond what the kernel takes as a time-out on some hosts.
        let timeout = (until < Instant::MAX).then_some(&timeout);
        while self.rings() == seen {
            if clock::now() >= until {
                return true;
            }
            // Every outcome (time-out, wake, signal, changed value) is decided by looking again.
            let _ = futex::wait_bitset(
                &self.rings,
                futex::Flags::PRIVATE,
                seen,
                timeout,
                NonZeroU32::MAX,
            );
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::time::Duration;
    use std::sync::Arc;

    #[test]
    fn the_time_comes_or_a_ring_does() {
        let bell = Arc::new(Bell::new());
        let until = clock::now() + Duration::from_millis(3);
        assert!(bell.sleep_until(0, until) && clock::now() >= until);
        for n in 0..3 {
            let sleeper = Arc::clone(&bell);
            let thread = std::thread::spawn(move || sleeper.sleep_until(n, Instant::MAX));
            bell.ring();
            assert!(!thread.join().expect("no panic"));
        }
        assert!(!bell.sleep_until(2, Instant::MAX), "a ring that was missed counts");
    }
}
