//! A sleep until an instant that other threads can end, as often as they like.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use punctual_model::time::Instant;
use rustix::thread::futex;

use crate::clock;

/// A counter of rings on which threads sleep. A thread that is woken only once, for good, uses
/// [`crate::park::Park`].
///
/// It uses FUTEX_WAIT_BITSET (futex(2)): the time-out is absolute on CLOCK_MONOTONIC and runs off
/// the same high-resolution timer as clock_nanosleep(2). Ringing takes no lock, so a thread of any
/// priority may ring for one of any other.
#[derive(Debug, Default)]
pub struct Bell {
    rings: AtomicU32,
}

impl Bell {
    /// Returns a bell that has not been rung.
    pub const fn new() -> Self {
        Self { rings: AtomicU32::new(0) }
    }

    /// Returns the number of rings so far, modulo 2³². Memory written before a ring that this
    /// counts is visible after the call.
    pub fn rings(&self) -> u32 {
        self.rings.load(Ordering::Acquire)
    }

    /// Rings, and wakes every sleeper.
    pub fn ring(&self) {
        self.rings.fetch_add(1, Ordering::Release);
        let _ = futex::wake(&self.rings, futex::Flags::PRIVATE, u32::MAX >> 1);
    }

    /// Sleeps until [`clock::now`] is at least `until`, or until the count of rings differs from
    /// `seen`. Returns true if the time came.
    pub fn sleep_until(&self, seen: u32, until: Instant) -> bool {
        let timeout = clock::timespec(until.as_nanos());
        // Some hosts' kernels refuse the end of time as a time-out.
        let timeout = (until < Instant::MAX).then_some(&timeout);
        while self.rings() == seen {
            if clock::now() >= until {
                return true;
            }
            // The loop condition decides every outcome: time-out, wake, signal, changed value.
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
