//! What runs above all tasks, reservations before all, and what it takes from them.

use punctual_model::{Duration, Reservation, Service};

use crate::channel::Interference;
use crate::ratio::Utilisation;
use crate::switching::with_two_switches;

/// One thing that runs above all tasks, with the switches charged to it, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedLoad {
    /// Of a reservation: the budget and two context switches.
    pub(crate) work: u64,
    pub(crate) period: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A constant bandwidth server.
    Reservation,
    /// Work that comes at most every period, known up to `jitter` after its nominal instant.
    Arrivals { jitter: u64 },
    /// Work that may have begun before a busy window and does not begin again in it; no period.
    Once,
}

impl ReservedLoad {
    /// Charges `reservation` two context switches a period.
    pub fn new(reservation: Reservation, context_switch: Service) -> Self {
        Self {
            work: with_two_switches(reservation.budget(), context_switch),
            period: reservation.period().as_nanos(),
            kind: Kind::Reservation,
        }
    }

    /// `work` (switches included) at most every `period`, up to `jitter` late.
    pub(crate) fn arrivals(work: u64, period: u64, jitter: u64) -> Self {
        Self { work, period, kind: Kind::Arrivals { jitter } }
    }

    /// `work` once in each busy window.
    pub(crate) fn once(work: u64) -> Self {
        // A period of which no part is ever counted.
        Self { work, period: u64::MAX, kind: Kind::Once }
    }

    /// The same in the form of arrivals, which never says less: with a jitter of `2(Y − X)`,
    /// `⌈(t + J)/Y⌉·X ≥ U·t + 2X(1 − U)`.
    /// `change` is what each costs the sender in switches and cold caches.
    pub(crate) fn as_arrivals(&self, change: Service) -> Interference {
        let Self { work, period, kind } = *self;
        let jitter = match kind {
            Kind::Reservation => period.saturating_sub(work).saturating_mul(2),
            Kind::Arrivals { jitter } => jitter,
            Kind::Once => 0,
        };
        Interference {
            work: Service::from_nanos(with_two_switches(Service::from_nanos(work), change)),
            period: Duration::from_nanos(period),
            jitter: Duration::from_nanos(jitter),
        }
    }

    /// Its part of [`crate::ratio::Utilisation`].
    pub(crate) fn add_to(&self, sum: &mut Utilisation) {
        if self.kind != Kind::Once {
            sum.add(self.work, self.period);
        }
    }

    /// What a window may hold beyond its share of it: interference is at most `U·t` and this, and
    /// one nanosecond of rounding.
    pub(crate) fn beyond_its_share(&self) -> Option<u64> {
        match self.kind {
            Kind::Reservation => self.work.checked_mul(2),
            Kind::Once => Some(self.work),
            Kind::Arrivals { jitter } => {
                let early = u128::from(self.work) * u128::from(jitter);
                let early = u64::try_from(early.div_ceil(u128::from(self.period))).ok()?;
                early.checked_add(self.work)
            }
        }
    }

    /// The most processor time it can use in any window of `window` nanoseconds. `None` beyond 64
    /// bits, or for a reservation with `X > Y`.
    pub fn interference_in(&self, window: u64) -> Option<u64> {
        match self.kind {
            Kind::Reservation => self.of_a_reservation(window),
            Kind::Once => Some(self.work),
            Kind::Arrivals { .. } if window == 0 => Some(0),
            Kind::Arrivals { jitter } => {
                window.checked_add(jitter)?.div_ceil(self.period).checked_mul(self.work)
            }
        }
    }

    /// Rounded up: `U·t + 2X(1 − U)` with `U = X/Y`.
    ///
    /// # Assumptions
    /// Linux serves it (`SCHED_DEADLINE`, a hard constant bandwidth server: Abeni & Buttazzo, RTSS
    /// 1998) above every task; its holder may run, block and wake as it likes.
    ///
    /// # Why this and not `⌈(t + Y − X)/Y⌉·X`
    /// That is the most a *periodic* server can use: X at the end of one period, X at the start of
    /// the next. But a server whose holder blocks and wakes early may be given a fresh budget
    /// before the old deadline, if what it used since the old budget began, at s₁, was within
    /// `U·(s₂ − s₁)`. So from one fresh budget to the next it uses at most `U` of the time. A
    /// window cuts one such stretch at each end. There it uses y and z, each at most X and at most
    /// the time it runs in the window; in between at most `U·(t − y − z)`. The sum
    /// `U·t + (1 − U)(y + z)` is largest for y = z = X. It covers the periodic server too.
    fn of_a_reservation(&self, window: u64) -> Option<u64> {
        let (x, y) = (u128::from(self.work), u128::from(self.period));
        let twice_the_rest = y.checked_sub(x)? * 2;
        let area = x.checked_mul(u128::from(window) + twice_the_rest)?;
        u64::try_from(area.div_ceil(y)).ok()
    }
}

/// The bandwidth of `reservations` in parts per million, each rounded up.
pub fn bandwidth_ppm(reservations: impl IntoIterator<Item = Reservation>) -> u64 {
    // At most 16,384 terms of at most 1,000,000.
    reservations.into_iter().map(Reservation::utilisation_ppm).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn load(text: &str) -> ReservedLoad {
        ReservedLoad::new(text.parse().expect("valid"), Service::ZERO)
    }

    #[test]
    fn two_budgets_can_meet_back_to_back() {
        let modem = load("2ms/8ms");
        assert_eq!(modem.interference_in(4_000_000), Some(4_000_000));
        assert_eq!(modem.interference_in(12_000_000), Some(6_000_000));
    }

    #[test]
    fn a_whole_cpu_leaves_nothing() {
        let all = load("8ms/8ms");
        for window in [1, 1_000, 86_400_000_000_000] {
            assert_eq!(all.interference_in(window), Some(window));
        }
    }

    /// A tick-by-tick constant bandwidth server with a random holder, served at random within
    /// its deadline, against the bound, in every window.
    #[test]
    fn no_holder_gets_more_than_the_bound() {
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        for _ in 0..2_000 {
            let period = rng.random_range(2..12u64);
            let budget = rng.random_range(1..=period);
            let used = server_trace(&mut rng, budget, period, 80);
            let bound = ReservedLoad { work: budget, period, kind: Kind::Reservation };
            for from in 0..used.len() {
                let mut total = 0;
                for (window, &ran) in (1..).zip(&used[from..]) {
                    total += u64::from(ran);
                    assert!(
                        total <= bound.interference_in(window).expect("small"),
                        "{budget}/{period} used {total} in {window}"
                    );
                }
            }
        }
    }

    /// In which ticks a server runs: awake or not at random, running at random, but all of its
    /// budget by its deadline if it stays awake.
    fn server_trace(rng: &mut ChaCha8Rng, budget: u64, period: u64, ticks: u64) -> Vec<bool> {
        let (mut left, mut deadline, mut awake) = (0, 0, false);
        let keen = rng.random_bool(0.5);
        (0..ticks)
            .map(|now| {
                if !awake && rng.random_bool(0.4) {
                    awake = true;
                    // The wake-up rule of the constant bandwidth server.
                    if now >= deadline || left * period > (deadline - now) * budget {
                        (left, deadline) = (budget, now + period);
                    }
                }
                if awake && now >= deadline {
                    (left, deadline) = (budget, now + period);
                }
                let urgent = left > 0 && deadline <= now + left;
                let runs = awake && left > 0 && (urgent || rng.random_bool(0.5));
                left -= u64::from(runs);
                if awake && rng.random_bool(if keen { 0.05 } else { 0.4 }) {
                    awake = false;
                }
                runs
            })
            .collect()
    }
}
