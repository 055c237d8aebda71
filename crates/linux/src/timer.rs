//! A timer for which one thread waits. Any thread can set it, and set it again, without waking the
//! waiter.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_model::time::Instant;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use thiserror::Error;

use crate::park::EventCount;
use crate::{clock, host};

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

/// A timer on CLOCK_MONOTONIC: one expiry at an absolute instant.
///
/// It is a timerfd(2), whose waiter sleeps in read(2). It uses no signal, so it interrupts no other
/// thread's system call. Setting it is one system call of some 0.4 µs and does not wake the waiter,
/// so setting and clearing a timer costs less than changing another thread's sleep.
///
/// A kernel with PREEMPT_RT lets a timerfd expire on a thread of its own of priority 1, which a
/// real-time thread that never sleeps keeps from running. There the waiter sleeps until the instant
/// itself, and setting an earlier one wakes it: the sleeps of real-time threads end in the interrupt
/// of the clock. (hrtimer.c: expiry of `HRTIMER_MODE_HARD`.)
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
pub struct Timer(Kind);

#[derive(Debug)]
enum Kind {
    Descriptor(OwnedFd),
    Sleep(Sleep),
}

impl Timer {
    /// Returns a timer that is not set.
    pub fn new() -> Result<Self, TimerError> {
        if host::is_preempt_rt() {
            return Ok(Self(Kind::Sleep(Sleep::default())));
        }
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC);
        fd.map(|fd| Self(Kind::Descriptor(fd))).map_err(TimerError)
    }

    /// Sets the timer to expire once, at `at`, in place of any earlier setting. It expires at once
    /// if `at` has passed.
    pub fn set(&self, at: Instant) {
        // Zero would clear the timer.
        self.set_to(at.as_nanos().max(1));
    }

    /// Clears the timer, including an expiry that has not been waited for yet. It does not expire
    /// until it is set again.
    pub fn clear(&self) {
        self.set_to(0);
    }

    fn set_to(&self, nanos: u64) {
        match &self.0 {
            Kind::Descriptor(fd) => {
                let it_value = clock::timespec(nanos);
                let once = Itimerspec { it_interval: clock::timespec(0), it_value };
                // Fails only for a malformed time, and `timespec` makes none.
                let _ = timerfd_settime(fd, TimerfdTimerFlags::ABSTIME, &once);
            }
            Kind::Sleep(sleep) => sleep.set_to(nanos),
        }
    }

    /// Sleeps until the timer expires. An expiry that was due just when the timer was set again may
    /// end the sleep, so the caller must check the clock. On an error this returns at once: a
    /// caller that still has to wait must sleep in another way.
    pub fn wait(&self) -> Result<(), WaitError> {
        let fd = match &self.0 {
            Kind::Descriptor(fd) => fd,
            Kind::Sleep(sleep) => {
                sleep.wait();
                return Ok(());
            }
        };
        let mut expiries = [0; 8];
        loop {
            match rustix::io::read(fd, &mut expiries) {
                Ok(_) => return Ok(()),
                // A signal handler ran.
                Err(Errno::INTR) => {}
                Err(refused) => return Err(WaitError(refused)),
            }
        }
    }
}

/// A timer for which its only waiter sleeps by itself.
#[derive(Debug, Default)]
struct Sleep {
    /// The instant of the expiry in nanoseconds; zero if the timer is not set.
    due: AtomicU64,
    /// The instant at which the waiter will look at `due` again.
    looks_at: AtomicU64,
    earlier: EventCount,
}

impl Sleep {
    fn set_to(&self, nanos: u64) {
        // Either this sees how long the waiter sleeps, or the waiter sees this setting.
        self.due.store(nanos, Ordering::SeqCst);
        if nanos != 0 && nanos < self.looks_at.load(Ordering::SeqCst) {
            self.earlier.notify();
        }
    }

    fn wait(&self) {
        loop {
            let seen = self.earlier.count();
            let due = self.due.load(Ordering::SeqCst);
            let until = if due == 0 { u64::MAX } else { due };
            self.looks_at.store(until, Ordering::SeqCst);
            if self.due.load(Ordering::SeqCst) != due {
                continue;
            }
            let came = self.earlier.sleep_until(seen, Instant::from_nanos(until));
            // A timer that was set anew meanwhile has not expired.
            if came && self.due.compare_exchange(due, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
            {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::time::Duration;
    use std::sync::Arc;

    /// Both kinds, whichever this kernel needs.
    fn both() -> [Timer; 2] {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC);
        let fd = Kind::Descriptor(fd.expect("a descriptor"));
        [fd, Kind::Sleep(Sleep::default())].map(Timer)
    }

    #[test]
    fn it_expires_when_it_was_last_set_to() {
        for timer in both() {
            let timer = Arc::new(timer);
            let start = clock::now();
            timer.set(start);
            timer.clear();
            timer.set(start + Duration::from_secs(3600));
            let waiter = Arc::clone(&timer);
            let thread = std::thread::spawn(move || waiter.wait());
            let at = start + Duration::from_millis(5);
            timer.set(at);
            thread.join().expect("no panic").expect("it expires");
            assert!(clock::now() >= at);
            timer.set(start);
            timer.wait().expect("it has expired");
        }
    }

    #[test]
    fn a_sleeping_waiter_gets_each_of_many_settings_and_none_that_was_taken_back() {
        for timer in both() {
            let timer = Arc::new(timer);
            let waiter = Arc::clone(&timer);
            let (told, expired) = std::sync::mpsc::channel();
            let thread = std::thread::spawn(move || {
                for _ in 0..200 {
                    waiter.wait().expect("it expires");
                    told.send(clock::now()).expect("the test waits");
                }
            });
            for round in 0..200_u64 {
                let now = clock::now();
                // Taken back, made later, made earlier.
                timer.set(now + Duration::from_secs(3600));
                timer.clear();
                let at = now + Duration::from_micros(round % 7 * 50);
                timer.set(at + Duration::from_secs(60));
                timer.set(at + Duration::from_micros(100));
                assert!(expired.recv().expect("it expires") >= at);
            }
            thread.join().expect("no panic");
        }
    }

    #[test]
    fn an_unreadable_timer_is_an_error_and_not_an_expiry() {
        let only_written = std::fs::File::create("/dev/null").expect("everywhere");
        let timer = Timer(Kind::Descriptor(only_written.into()));
        assert_eq!(timer.wait(), Err(WaitError(Errno::BADF)));
    }
}
