//! Whether a handler that is over its time is to blame for it: what the guard knows of the loan that
//! lasts. Pure: it is told the time and the accounts.
//!
//! Two things excuse a handler. Its thread wanted the CPU and did not get it: that its processor time
//! tells. Or the machine stood still: a hypervisor took the CPU away, or the kernel could not be
//! interrupted. The kernel counts that as the thread's own time wherever the hypervisor does not tell
//! it, so the account is no witness. The guard is: nobody of ours runs above it, so a timer that wakes
//! it late woke a machine that stood still. For how long is not known, so the iteration gets its whole
//! time anew. A stop as long as the iteration's whole time always covers the instant for which the
//! guard's timer is set; one that is shorter than the grace excuses nobody, and need not.

use punctual_model::{Duration, Instant};

use super::account::Account;

/// How often a thread that wants the CPU and does not get it is waited for.
const REPRIEVES: u32 = 32;

/// How often an iteration gets its time anew. A handler in a system call in which the kernel cannot
/// be interrupted makes the guard late as well, and could do so for ever.
const RENEWALS: u32 = 3;

/// Later than this the guard is not woken by a machine that goes on: more than twice what a wake-up
/// takes on a loaded virtual machine.
pub(super) const LATE: Duration = Duration::from_micros(100);

/// While there is nobody to watch the guard looks so often at least.
pub(super) const SHORTEST_PAUSE: Duration = Duration::from_micros(100);

/// The loan that lasted at the last look.
#[derive(Debug, Default)]
pub(super) struct OverrunWatchdog {
    ticket: u64,
    /// For how long its thread wanted the CPU in vain.
    deprived: Duration,
    /// How often it was reprieved.
    reprieved: u32,
    /// How often its time began anew, and until when it then lasts.
    renewed: u32,
    renewed_until: Instant,
}

/// What is published of the iteration that lasts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Iteration {
    pub(super) began: Instant,
    /// The instant by which it must be over.
    pub(super) ends_by: Instant,
}

/// Whether its thread wants the CPU, and how it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// None if it cannot be learnt.
    pub(super) wants_cpu: Option<bool>,
    /// It is an ordinary thread, at best effort.
    pub(super) in_background: bool,
}

impl OverrunWatchdog {
    /// The loan `ticket` (zero: none) lasts; between two looks its thread's account went from `before`
    /// to `after`.
    pub(super) fn observe(&mut self, ticket: u64, began: Instant, before: Account, after: Account) {
        if self.ticket != ticket {
            *self = Self { ticket, ..Self::default() };
        }
        // The account before may be of an earlier iteration.
        let longest = after.at.saturating_since(began);
        let deprived = after.deprived_since(before);
        self.deprived = self.deprived.saturating_add(deprived).min(longest);
    }

    /// The guard was woken at `now`, so much `late`.
    pub(super) fn woken(&mut self, late: Duration, of: Iteration, now: Instant) {
        if self.ticket == 0 || late <= LATE || self.renewed == RENEWALS {
            return;
        }
        self.renewed += 1;
        self.renewed_until = now.saturating_add(of.ends_by.saturating_since(of.began));
    }

    /// Until when it need not be looked at closer.
    pub(super) fn due(&self, ends_by: Instant) -> Instant {
        ends_by.max(self.renewed_until)
    }

    /// Until when the loan that lasts is to be left alone although its time is over; none: no longer.
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
            // Whether it waits or is kept from running cannot be learnt (no descriptor is left for
            // /proc): some more looks, and not as long as it was without the CPU, which would be
            // twice as long each time.
            None => now.saturating_add(Duration::from_nanos(1)),
        };
        // An ordinary thread may be starved for long, and harms nobody meanwhile.
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

    /// A host that stops the CPU and does not tell: the thread's clock goes on meanwhile.
    struct Host {
        /// From, to.
        stops: Vec<(Instant, Instant)>,
        /// Of a wake-up.
        latency: Duration,
    }

    impl Host {
        /// When work that begins at `from` and takes `work` is over.
        fn over(&self, from: Instant, work: Duration) -> Instant {
            let mut end = from + work;
            for (stop, go) in &self.stops {
                if *stop < end && *go > from {
                    end += *go - (*stop).max(from);
                }
            }
            end
        }

        /// When a timer set for `at` has woken the guard.
        fn wakes(&self, at: Instant) -> Instant {
            let stopped = self.stops.iter().find(|(stop, go)| *stop <= at && at < *go);
            stopped.map_or(at, |(_, go)| *go) + self.latency
        }
    }

    /// When a handler is put aside that is at its iteration from `began` until `over`; none if it is
    /// over before.
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
    fn a_machine_that_stands_still_is_nobodys_fault() {
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
            // At any time while it works; shorter than the grace, or so long that it shows.
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
    fn who_was_kept_from_the_cpu_gets_it_back_and_one_that_sleeps_gets_nothing() {
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
        assert_eq!(watchdog.reprieve(running, ends_by, GRACE, ends_by), None, "another loan");
    }
}
