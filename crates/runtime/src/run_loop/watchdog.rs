//! Decides whether a handler that is over its time is at fault, from what the guard knows of the
//! current lease. Pure: the caller passes the time and the accounts.
//!
//! Two things excuse a handler. First, its thread wanted the CPU and did not get it: its processor
//! time shows that. Second, the machine stood still: a hypervisor took the CPU away, or the kernel
//! could not be interrupted. The kernel counts that as the thread's own time if the hypervisor does
//! not report it, so the account does not show it. The guard's own wake-up does: no thread of ours
//! runs above the guard, so if its timer wakes it late, the machine stood still. The length of the
//! stop is not known, so the iteration gets its whole time anew. A stop as long as the iteration's
//! whole time always covers the instant for which the guard's timer is set. A stop that is shorter
//! than the grace excuses no handler, and need not.

use punctual_model::{Duration, Instant};

use super::watch::Account;

/// The number of times that the guard waits for a thread that wants the CPU and does not get it.
const REPRIEVES: u32 = 32;

/// The number of times that an iteration gets its time anew. A handler in a system call in which
/// the kernel cannot be interrupted makes the guard late as well, and could do so for ever.
const RENEWALS: u32 = 3;

/// The lateness of the guard beyond which the machine stood still: more than twice what a wake-up
/// takes on a loaded virtual machine.
pub(super) const LATE: Duration = Duration::from_micros(100);

/// The shortest pause between two looks while there is no iteration to watch.
pub(super) const SHORTEST_PAUSE: Duration = Duration::from_micros(100);

/// The current lease as of the last look.
#[derive(Debug, Default)]
pub(super) struct OverrunWatchdog {
    ticket: u64,
    /// The time for which its thread wanted the CPU in vain.
    deprived: Duration,
    /// The number of its reprieves.
    reprieved: u32,
    /// The number of times that its time began anew, and the end of that time.
    renewed: u32,
    renewed_until: Instant,
}

/// The published times of the current iteration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Iteration {
    pub(super) began: Instant,
    /// The instant by which it must be over.
    pub(super) ends_by: Instant,
}

/// The state of the thread that is watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// True if it wants the CPU; `None` if that cannot be learnt.
    pub(super) wants_cpu: Option<bool>,
    /// True if it is an ordinary thread, at best effort.
    pub(super) in_background: bool,
}

impl OverrunWatchdog {
    /// Notes that the lease `ticket` lasts (zero: none), and that its thread's account went from
    /// `before` to `after` between two looks.
    pub(super) fn observe(&mut self, ticket: u64, began: Instant, before: Account, after: Account) {
        if self.ticket != ticket {
            *self = Self { ticket, ..Self::default() };
        }
        // The account before may be of an earlier iteration.
        let longest = after.at.saturating_since(began);
        let deprived = after.deprived_since(before);
        self.deprived = self.deprived.saturating_add(deprived).min(longest);
    }

    /// Notes that the guard was woken at `now`, `late` after the time for which its timer was set.
    pub(super) fn woken(&mut self, late: Duration, of: Iteration, now: Instant) {
        if self.ticket == 0 || late <= LATE || self.renewed == RENEWALS {
            return;
        }
        self.renewed += 1;
        self.renewed_until = now.saturating_add(of.ends_by.saturating_since(of.began));
    }

    /// Returns until when the iteration need not be looked at closer.
    pub(super) fn due(&self, ends_by: Instant) -> Instant {
        ends_by.max(self.renewed_until)
    }

    /// Returns until when the current lease is left alone although its time is over, or `None` if
    /// no longer.
    pub(super) fn reprieve(
        &mut self,
        of: Standing,
        ends_by: Instant,
        grace: Duration,
        now: Instant,
    ) -> Option<Instant> {
        let Standing { wants_cpu, in_background } = of;
        let until = match wants_cpu {
            Some(false) => return None,
            Some(true) => self.due(ends_by).max(ends_by.saturating_add(self.deprived)),
            // Without a descriptor for /proc it cannot be learnt whether the thread waits or is
            // kept from running. It gets some more looks, but not as long as it was without the
            // CPU, which would be twice as long each time.
            None => now.saturating_add(Duration::from_nanos(1)),
        };
        // An ordinary thread may be starved for long, and harms no other meanwhile.
        let may_wait = in_background || self.reprieved < REPRIEVES;
        (now < until && may_wait).then(|| {
            self.reprieved += 1;
            let pause = if in_background { grace * 4 } else { grace / 4 };
            until.max(now.saturating_add(pause.max(SHORTEST_PAUSE / 4)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::Service;

    const GRACE: Duration = Duration::from_millis(1);

    fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    /// A host that stops the CPU and does not report it: the thread's clock goes on meanwhile.
    struct Host {
        /// The beginning and the end of each stop.
        stops: Vec<(Instant, Instant)>,
        /// The latency of a wake-up.
        latency: Duration,
    }

    impl Host {
        /// Returns when work that begins at `from` and takes `work` is over.
        fn over(&self, from: Instant, work: Duration) -> Instant {
            let mut end = from + work;
            for (stop, go) in &self.stops {
                if *stop < end && *go > from {
                    end += *go - (*stop).max(from);
                }
            }
            end
        }

        /// Returns when a timer set for `at` has woken the guard.
        fn wakes(&self, at: Instant) -> Instant {
            let stopped = self.stops.iter().find(|(stop, go)| *stop <= at && at < *go);
            stopped.map_or(at, |(_, go)| *go) + self.latency
        }
    }

    /// Returns when a handler whose iteration lasts from `began` until `over` is contained; `None`
    /// if it is over before.
    fn put_aside(host: &Host, began: Instant, limit: Duration, over: Instant) -> Option<Instant> {
        let of = Iteration { began, ends_by: began + limit };
        let account = |at: Instant| Account {
            at,
            used: Service::from_nanos((at - began).as_nanos()),
            waited: Duration::ZERO,
        };
        let mut watchdog = OverrunWatchdog::default();
        let (mut before, mut armed) = (account(began), of.ends_by);
        for _ in 0..100 {
            let now = host.wakes(armed);
            if over <= now {
                return None;
            }
            watchdog.observe(1, began, before, account(now));
            before = account(now);
            watchdog.woken(now - armed, of, now);
            armed = watchdog.due(of.ends_by);
            if armed <= now {
                let standing = Standing { wants_cpu: Some(true), in_background: false };
                match watchdog.reprieve(standing, of.ends_by, GRACE, now) {
                    Some(until) => armed = until,
                    None => return Some(now),
                }
            }
        }
        panic!("it is looked at for ever");
    }

    #[test]
    fn a_machine_that_stands_still_excuses_the_handler() {
        let began = Instant::ZERO + us(1_000);
        let latency = us(40);
        let mut state = 11u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..20_000 {
            let quantum = us(1 + random(3_000));
            let limit = quantum + GRACE;
            let work = us(1 + random(quantum.as_nanos() / 1_000));
            // The stop begins at any time while it works. It is shorter than the grace, or long
            // enough to show.
            let from = began + us(random(work.as_nanos() / 1_000 + 1));
            let long = limit.as_nanos() / 1_000 + 101;
            let stop = if random(3) == 0 { random(1_000) } else { long + random(30_000) };
            let host = Host { stops: vec![(from, from + us(stop))], latency };
            let over = host.over(began, work);
            assert_eq!(
                put_aside(&host, began, limit, over),
                None,
                "works {work} of {quantum}, stopped for {stop} us"
            );
        }
    }

    #[test]
    fn one_that_never_comes_back_is_put_aside_on_a_machine_that_stands_still_again_and_again() {
        let (began, limit) = (Instant::ZERO + us(1_000), us(1_500));
        let latency = us(40);
        let quiet = Host { stops: Vec::new(), latency };
        let aside = put_aside(&quiet, began, limit, Instant::MAX);
        assert_eq!(aside, Some(began + limit + latency), "at once where nothing excuses it");
        let stops = (0..1_000).map(|n| began + us(2_000 * n + 900));
        let restless = Host { stops: stops.map(|at| (at, at + us(1_000))).collect(), latency };
        let aside = put_aside(&restless, began, limit, Instant::MAX).expect("in the end");
        let most = (limit + us(1_000) + latency) * (u64::from(RENEWALS) + 1);
        assert!(aside <= began + most, "{aside}");
    }

    #[test]
    fn a_thread_kept_from_the_cpu_is_reprieved_and_one_that_sleeps_is_not() {
        let began = Instant::ZERO + us(1_000);
        let at = |n, used| Account {
            at: began + us(n),
            used: Service::from_micros(used),
            waited: Duration::ZERO,
        };
        let ends_by = began + us(1_100);
        let mut watchdog = OverrunWatchdog::default();
        watchdog.observe(1, began, at(0, 0), at(1_100, 300));
        let running = Standing { wants_cpu: Some(true), in_background: false };
        let until = watchdog.reprieve(running, ends_by, GRACE, ends_by);
        assert_eq!(until, Some(ends_by + us(800)));
        let asleep = Standing { wants_cpu: Some(false), in_background: false };
        assert_eq!(watchdog.reprieve(asleep, ends_by, GRACE, ends_by), None);
        watchdog.observe(2, began, at(1_100, 300), at(1_100, 300));
        assert_eq!(watchdog.reprieve(running, ends_by, GRACE, ends_by), None, "another lease");
    }
}
