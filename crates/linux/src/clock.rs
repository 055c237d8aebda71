//! The one clock, CLOCK_MONOTONIC, and the processor time of a thread.

use punctual_model::time::{Duration, Instant, Service};
use rustix::io::Errno;
use rustix::thread::ClockId as SleepClock;
use rustix::time::{ClockId, DynamicClockId, Timespec};

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Returns the current time in nanoseconds of CLOCK_MONOTONIC (clock_gettime(2)). It counts from a
/// moment during boot, the same for every process of the host. The clock is never set back and
/// stands still while the host is suspended.
pub fn now() -> Instant {
    Instant::from_nanos(nanos(rustix::time::clock_gettime(ClockId::Monotonic)))
}

/// Returns the current time on CLOCK_TAI, which equals CLOCK_REALTIME unless the kernel has been
/// given the leap seconds.
pub(crate) fn tai() -> Instant {
    let tai = rustix::time::clock_gettime_dynamic(DynamicClockId::Tai);
    // Only kernels before Linux 3.10 refuse this.
    tai.map_or(Instant::ZERO, |tai| Instant::from_nanos(nanos(tai)))
}

/// Sleeps until [`now`] is at least `until`; returns at once if it already is.
///
/// The sleep is absolute (clock_nanosleep(2), TIMER_ABSTIME), so a signal handler that interrupts
/// it does not make it drift. It ends late by the thread's wake-up latency and, for an ordinary
/// thread, by its timer slack ([`crate::thread::set_timer_slack`]).
pub fn sleep_until(until: Instant) {
    let at = timespec(until.as_nanos());
    // The only other error besides EINTR is a malformed time, and `timespec` makes none.
    while rustix::thread::clock_nanosleep_absolute(SleepClock::Monotonic, &at) == Err(Errno::INTR) {
    }
}

/// Sleeps for at least `length`.
pub fn sleep(length: Duration) {
    sleep_until(now().saturating_add(length));
}

/// Returns the processor time that the calling thread has received since it began
/// (CLOCK_THREAD_CPUTIME_ID). This costs a system call, some 0.5 µs.
pub fn thread_cpu_time() -> Service {
    Service::from_nanos(nanos(rustix::time::clock_gettime(ClockId::ThreadCPUTime)))
}

/// Returns the finest step of CLOCK_MONOTONIC timers (clock_getres(2)): 1 ns with high-resolution
/// timers, a scheduler tick (1–10 ms) without them.
pub fn resolution() -> Duration {
    Duration::from_nanos(nanos(rustix::time::clock_getres(ClockId::Monotonic)))
}

/// Converts to nanoseconds. Clocks that start at zero and run forward have no negative times.
fn nanos(time: Timespec) -> u64 {
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds.saturating_mul(NANOS_PER_SEC).saturating_add(nanos)
}

/// Converts nanoseconds for system calls. Every `u64` fits: at most 2^64 / 10^9 < 2^35 seconds.
pub fn timespec(nanos: u64) -> Timespec {
    Timespec {
        tv_sec: (nanos / NANOS_PER_SEC).cast_signed(),
        tv_nsec: (nanos % NANOS_PER_SEC).cast_signed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_ends_no_earlier_than_asked() {
        let until = now() + Duration::from_millis(3);
        sleep_until(until);
        assert!(now() >= until);
        sleep_until(Instant::ZERO); // Long past: returns.
    }

    #[test]
    fn working_takes_processor_time_and_sleeping_does_not() {
        let start = thread_cpu_time();
        sleep(Duration::from_millis(20));
        let slept = thread_cpu_time() - start;
        assert!(slept < Service::from_millis(20), "{slept} of processor time for a sleep");
        let from = thread_cpu_time();
        while thread_cpu_time() == from {}
    }

    #[test]
    fn times_survive_the_way_to_the_kernel_and_back() {
        for ns in [0, 1, NANOS_PER_SEC - 1, NANOS_PER_SEC, u64::MAX] {
            assert_eq!(nanos(timespec(ns)), ns);
        }
    }
}
