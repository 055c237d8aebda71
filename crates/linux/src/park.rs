//! Sleeps until an instant that other threads can end: once ([`Park`]), or as often as they like
//! ([`EventCount`]).

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use punctual_model::time::Instant;
use rustix::thread::futex;
use rustix::time::Timespec;

use crate::clock;

/// A place where one thread sleeps until an absolute instant or until another thread
/// [`wake`](Self::wake)s it, whichever comes first. Once woken, it never sleeps again.
///
/// It uses FUTEX_WAIT_BITSET (futex(2)): the time-out is absolute on CLOCK_MONOTONIC and runs off
/// the same high-resolution timer as clock_nanosleep(2).
#[derive(Debug, Default)]
pub struct Park {
    woken: AtomicU32,
}

impl Park {
    /// Returns a place that has not been woken.
    pub const fn new() -> Self {
        Self { woken: AtomicU32::new(0) }
    }

    /// Returns true once [`wake`](Self::wake) has been called.
    pub fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire) != 0
    }

    /// Sleeps until [`clock::now`] is at least `until`, or until woken. Returns true if the time
    /// came.
    pub fn sleep_until(&self, until: Instant) -> bool {
        let timeout: Timespec = clock::timespec(until.as_nanos());
        while !self.is_woken() {
            if clock::now() >= until {
                return true;
            }
            // The loop condition decides every outcome: time-out, wake, signal, changed value.
            let _ = futex::wait_bitset(
                &self.woken,
                futex::Flags::PRIVATE,
                0,
                Some(&timeout),
                NonZeroU32::MAX,
            );
        }
        false
    }

    /// Ends the sleep, for good.
    pub fn wake(&self) {
        self.woken.store(1, Ordering::Release);
        let _ = futex::wake(&self.woken, futex::Flags::PRIVATE, u32::MAX >> 1);
    }
}

/// A count of events on which threads sleep. A thread that is woken only once, for good, uses
/// [`Park`].
///
/// It uses FUTEX_WAIT_BITSET (futex(2)): the time-out is absolute on CLOCK_MONOTONIC and runs off
/// the same high-resolution timer as clock_nanosleep(2). Notifying takes no lock, so a thread of any
/// priority may notify one of any other.
#[derive(Debug, Default)]
pub struct EventCount {
    events: AtomicU32,
}

impl EventCount {
    /// Returns a count of no events.
    pub const fn new() -> Self {
        Self { events: AtomicU32::new(0) }
    }

    /// Returns the number of events so far, modulo 2³². Memory written before an event that this
    /// counts is visible after the call.
    pub fn count(&self) -> u32 {
        self.events.load(Ordering::Acquire)
    }

    /// Counts an event, and wakes every sleeper.
    pub fn notify(&self) {
        self.events.fetch_add(1, Ordering::Release);
        let _ = futex::wake(&self.events, futex::Flags::PRIVATE, u32::MAX >> 1);
    }

    /// Sleeps until [`clock::now`] is at least `until`, or until the count of events differs from
    /// `seen`. Returns true if the time came.
    pub fn sleep_until(&self, seen: u32, until: Instant) -> bool {
        let timeout = clock::timespec(until.as_nanos());
        // Some hosts' kernels refuse the end of time as a time-out.
        let timeout = (until < Instant::MAX).then_some(&timeout);
        while self.count() == seen {
            if clock::now() >= until {
                return true;
            }
            // The loop condition decides every outcome: time-out, wake, signal, changed value.
            let _ = futex::wait_bitset(
                &self.events,
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
    use std::sync::Arc;

    use punctual_model::time::Duration;

    use super::*;

    #[test]
    fn the_time_comes() {
        let until = clock::now() + Duration::from_millis(3);
        assert!(Park::new().sleep_until(until));
        assert!(clock::now() >= until);
    }

    #[test]
    fn another_thread_ends_the_sleep_for_ever() {
        let park = std::sync::Arc::new(Park::new());
        let sleeper = std::sync::Arc::clone(&park);
        let thread = std::thread::spawn(move || sleeper.sleep_until(Instant::MAX));
        park.wake();
        assert!(!thread.join().expect("no panic"));
        assert!(!park.sleep_until(Instant::MAX));
    }

    #[test]
    fn the_time_comes_or_an_event_does() {
        let changed = Arc::new(EventCount::new());
        let until = clock::now() + Duration::from_millis(3);
        assert!(changed.sleep_until(0, until) && clock::now() >= until);
        for n in 0..3 {
            let sleeper = Arc::clone(&changed);
            let thread = std::thread::spawn(move || sleeper.sleep_until(n, Instant::MAX));
            changed.notify();
            assert!(!thread.join().expect("no panic"));
        }
        assert!(!changed.sleep_until(2, Instant::MAX), "a missed event counts");
    }
}
