//! A timer for which one thread waits. Any thread can set it, and set it again, without waking the
//! waiter.

use std::os::fd::OwnedFd;

use punctual_model::time::Instant;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use thiserror::Error;

use crate::clock;

/// The kernel's refusal to create a timer (timerfd_create(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no timer: timerfd_create(2) failed: {0}; raise the limit on open files (ulimit -n)")]
pub struct TimerError(Errno);

/// The reason a timer cannot be waited for (read(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "a timer cannot be waited for: read(2) of it failed: {0}; look for who closes or replaces \
     descriptors that are not its own"
)]
pub struct WaitError(Errno);

/// A timerfd(2) on CLOCK_MONOTONIC: one expiry at an absolute instant.
///
/// Its waiter sleeps in read(2). It uses no signal, so it interrupts no other thread's system call.
/// Setting it is one system call of some 0.4 µs and does not wake the waiter, so setting and
/// clearing a timer costs less than changing another thread's sleep.
///
/// ```
/// use punctual_linux::{clock, timer::Timer};
/// use punctual_model::Duration;
///
/// let timer = Timer::new()?;
/// let at = clock::now() + Duration::from_millis(1);
/// timer.set(at);
/// timer.wait()?;
/// assert!(clock::now() >= at);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Timer {
    fd: OwnedFd,
}

impl Timer {
    /// Returns a timer that is not set.
    pub fn new() -> Result<Self, TimerError> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC);
        fd.map(|fd| Self { fd }).map_err(TimerError)
    }

    /// Sets the timer to expire once, at `at`, in place of any earlier setting. It expires at once
    /// if `at` has passed.
    pub fn set(&self, at: Instant) {
        // Zero would clear the timer.
        self.set_to(clock::timespec(at.as_nanos().max(1)));
    }

    /// Clears the timer, including an expiry that has not been waited for yet. It does not expire
    /// until it is set again.
    pub fn clear(&self) {
        self.set_to(clock::timespec(0));
    }

    fn set_to(&self, at: Timespec) {
        let once = Itimerspec { it_interval: clock::timespec(0), it_value: at };
        // Fails only for a malformed time, and `timespec` makes none.
        let _ = timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &once);
    }

    /// Sleeps until the timer expires. An expiry that was due just when the timer was set again may
    /// end the sleep, so the caller must check the clock. On an error this returns at once: a
    /// caller that still has to wait must sleep in another way.
    pub fn wait(&self) -> Result<(), WaitError> {
        let mut expiries = [0; 8];
        loop {
            match rustix::io::read(&self.fd, &mut expiries) {
                Ok(_) => return Ok(()),
                // A signal handler ran.
                Err(Errno::INTR) => {}
                Err(refused) => return Err(WaitError(refused)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::time::Duration;

    #[test]
    fn it_expires_when_it_was_last_set_to() {
        let timer = std::sync::Arc::new(Timer::new().expect("a descriptor"));
        let start = clock::now();
        timer.set(start);
        timer.clear();
        timer.set(start + Duration::from_secs(3600));
        let waiter = std::sync::Arc::clone(&timer);
        let thread = std::thread::spawn(move || waiter.wait());
        let at = start + Duration::from_millis(5);
        timer.set(at);
        thread.join().expect("no panic").expect("it expires");
        assert!(clock::now() >= at);
        timer.set(start);
        timer.wait().expect("it has expired");
    }

    #[test]
    fn an_unreadable_timer_is_an_error_and_not_an_expiry() {
        let only_written = std::fs::File::create("/dev/null").expect("everywhere");
        let timer = Timer { fd: only_written.into() };
        assert_eq!(timer.wait(), Err(WaitError(Errno::BADF)));
    }
}
