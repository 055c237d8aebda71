//! The load of reservations and all other work that runs above the tasks.

use alloc::vec::Vec;

use punctual_model::{Reservation, Service};

use crate::ratio::Utilisation;
use crate::switching::with_two_switches;

/// One load that runs above all tasks, with the switches charged to it, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedLoad {
    /// For a reservation, the budget and two context switches.
    pub(crate) work: u64,
    pub(crate) period: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A constant bandwidth server that the other reservations keep from its budget for at most
    /// `delay`.
    Reservation { delay: u64 },
    /// The slots of a timetable: a constant bandwidth server that nothing delays.
    Slots,
    /// Work that arrives at most once per period and becomes known up to `jitter` after its nominal
    /// instant.
    Arrivals { jitter: u64 },
    /// Arrivals in parts of `part`, at most one of which begins every `pace`, except for those that
    /// a window longer by `early` holds.
    Paced { jitter: u64, part: u64, pace: u64, early: u64 },
    /// Work that may have begun before a busy window and does not begin again in it; it has no
    /// period.
    Once,
}

impl ReservedLoad {
    /// Charges `reservation` two context switches per period. Assumes that other reservations can
    /// keep it from its budget until the end of its period; `settle` finds the actual delay.
    pub fn new(reservation: Reservation, context_switch: Service) -> Self {
        let work = with_two_switches(reservation.budget(), context_switch);
        let period = reservation.period().as_nanos();
        Self { work, period, kind: Kind::Reservation { delay: period.saturating_sub(work) } }
    }

    /// Creates the load of a timetable's slots that take `taken`, switches included. They repeat
    /// within its period, and take no more of each repetition than its share.
    pub(crate) fn slots(taken: Reservation) -> Self {
        let (work, period) = (taken.budget().as_nanos(), taken.period().as_nanos());
        Self { work, period, kind: Kind::Slots }
    }

    /// Returns whether both are the same, apart from the delay by other reservations.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        let kind = |one: &Self| match one.kind {
            Kind::Reservation { .. } => Kind::Reservation { delay: 0 },
            other => other,
        };
        (self.work, self.period, kind(self)) == (other.work, other.period, kind(other))
    }

    /// Creates a load of `work` (switches included) at most every `period`, up to `jitter` late.
    pub(crate) fn arrivals(work: u64, period: u64, jitter: u64) -> Self {
        Self { work, period, kind: Kind::Arrivals { jitter } }
    }

    /// Splits the load into parts of `part` each. Any window of t has at most
    /// `⌈(t + early) / pace⌉` parts.
    pub(crate) fn paced(self, part: u64, pace: u64, early: u64) -> Self {
        let Kind::Arrivals { jitter } = self.kind else { return self };
        Self { kind: Kind::Paced { jitter, part, pace, early }, ..self }
    }

    /// Creates a load of `work` once in each busy window.
    pub(crate) fn once(work: u64) -> Self {
        // No part of this period is ever counted.
        Self { work, period: u64::MAX, kind: Kind::Once }
    }

    /// Adds its share to a [`crate::ratio::Utilisation`].
    pub(crate) fn add_to(&self, sum: &mut Utilisation) {
        if self.kind != Kind::Once {
            sum.add(self.work, self.period);
        }
    }

    /// Returns the work that a window may hold beyond its share: interference is at most `U·t` and
    /// this, and one nanosecond of rounding.
    pub(crate) fn beyond_its_share(&self) -> Option<u64> {
        match self.kind {
            Kind::Reservation { .. } | Kind::Slots => self.interference_in(0),
            Kind::Once => Some(self.work),
            Kind::Arrivals { jitter } | Kind::Paced { jitter, .. } => {
                let early = u128::from(self.work) * u128::from(jitter);
                let early = u64::try_from(early.div_ceil(u128::from(self.period))).ok()?;
                early.checked_add(self.work)
            }
        }
    }

    /// Returns the most processor time that it can use in any window of `window` nanoseconds.
    /// Returns `None` beyond 64 bits, or for a reservation with `X > Y`.
    pub fn interference_in(&self, window: u64) -> Option<u64> {
        match self.kind {
            Kind::Reservation { delay } => self.of_a_reservation(window, delay),
            Kind::Slots => self.of_a_reservation(window, 0),
            Kind::Once => Some(self.work),
            Kind::Arrivals { .. } | Kind::Paced { .. } if window == 0 => Some(0),
            Kind::Arrivals { jitter } => {
                window.checked_add(jitter)?.div_ceil(self.period).checked_mul(self.work)
            }
            Kind::Paced { jitter, part, pace, early } => {
                let parts = window.checked_add(early)?.div_ceil(pace).saturating_mul(part);
                let times = window.checked_add(jitter)?.div_ceil(self.period);
                Some(times.saturating_mul(self.work).min(parts))
            }
        }
    }

    /// Returns `U·(t + δ) + X(1 − U)`, rounded up, with `U = X/Y` and δ = `delay`.
    ///
    /// # Assumptions
    /// Linux serves the reservation (`SCHED_DEADLINE`, a hard constant bandwidth server: Abeni &
    /// Buttazzo, RTSS 1998) above every task. Its holder may run, block and wake arbitrarily. While
    /// it is runnable it waits for at most δ.
    ///
    /// # Why
    /// From one fresh budget to the next a server uses at most U of the time: one that wakes early
    /// gets a fresh budget, at s₂, only if its use since the old one began, at s₁, was within
    /// `U·(s₂ − s₁)`. So from any instant r at which it becomes runnable on, it uses at most
    /// `U·t + X(1 − U)` in t: U of the time up to the last fresh budget, and then no more than X.
    ///
    /// A window may begin at w, when the server has been runnable since r and has used u. Then
    /// `w − r ≤ u + δ`, and its use in the window is at most
    /// `U·(t + w − r) + X(1 − U) − u ≤ U·(t + δ) + X(1 − U)`.
    fn of_a_reservation(&self, window: u64, delay: u64) -> Option<u64> {
        let (x, y) = (u128::from(self.work), u128::from(self.period));
        let rest = y.checked_sub(x)? + u128::from(delay);
        let area = x.checked_mul(u128::from(window) + rest)?;
        // A division of 64 bits costs a third of one of 128.
        match u64::try_from(area) {
            Ok(area) => Some(area.div_ceil(self.period)),
            Err(_) => u64::try_from(area.div_ceil(y)).ok(),
        }
    }
}

/// Finds the time for which the reservations among `all` can keep each other from their budgets, in
/// O(n).
///
/// # Assumptions
/// They are all reservations that `SCHED_DEADLINE` serves on one CPU, or on a root domain of
/// several, and their shares are at most one together. (If they are more, no delay below the rest
/// of each period is found.)
///
/// # Why
/// Server i becomes runnable at r, with c left up to its deadline d. Let t₀ be the last instant
/// before which no work due by d was pending. From then on until c is done, at f, each instant
/// serves such work on some CPU. The arrivals of another server j are bounded, because it uses at
/// most U_j of the time from one fresh budget to the next:
///
/// - due by d, at most `U_j·(d − t₀)`;
/// - before f, at most `U_j·(f − t₀) + X_j`.
///
/// At most `U_i·(s − t₀)` of i itself arrived before its last fresh budget, at s; from then on X_i
/// in all. With the first bound for every j, or the second, `f − r ≤ c + δ` follows, with
///
/// - `δ = Y_i·Σ U_j`,
/// - `δ = (X_i + Σ X_j) / (1 − Σ U_j) − X_i`.
pub(crate) fn settle(all: &mut [ReservedLoad]) {
    /// 1.0 in the units of shares, 2⁻⁴⁰; shares are rounded up.
    const ONE: u128 = 1 << 40;
    // More than the whole CPU is cut, because it is refused in any case.
    let share = |one: &ReservedLoad| {
        (u128::from(one.work) << 40).div_ceil(u128::from(one.period)).min(2 * ONE)
    };
    let (mut shares, mut budgets) = (0, 0);
    for one in all.iter().filter(|one| matches!(one.kind, Kind::Reservation { .. })) {
        shares += share(one);
        budgets += u128::from(one.work);
    }
    for one in all {
        let others = shares.saturating_sub(share(&*one));
        let (x, y) = (u128::from(one.work), u128::from(one.period));
        let Kind::Reservation { delay } = &mut one.kind else { continue };
        let due = (others * y).div_ceil(ONE);
        // At most 2¹⁴ budgets of 63 bits.
        let arriving = ONE
            .checked_sub(others)
            .filter(|rest| *rest > 0)
            .map_or(u128::MAX, |rest| (budgets * ONE).div_ceil(rest).saturating_sub(x));
        let least = due.min(arriving).min(y.saturating_sub(x));
        // The last of the three has 64 bits.
        *delay = u64::try_from(least).unwrap_or(u64::MAX);
    }
}

/// Returns the most processor time that `all` can use in any window of `window` nanoseconds, or
/// `None` beyond 64 bits.
pub(crate) fn interference_of(all: &[ReservedLoad], window: u64) -> Option<u64> {
    all.iter().try_fold(0_u64, |sum, one| sum.checked_add(one.interference_in(window)?))
}

/// Returns the load of SCHED_DEADLINE's `reservations` on everything below them. They must be all
/// reservations of the CPU or its root domain; switches are free.
pub fn of_the_kernel(reservations: impl IntoIterator<Item = Reservation>) -> Vec<ReservedLoad> {
    let free = |one| ReservedLoad::new(one, Service::ZERO);
    let mut all: Vec<ReservedLoad> = reservations.into_iter().map(free).collect();
    settle(&mut all);
    all
}

/// Returns the bandwidth of `reservations` in parts per million, each rounded up.
pub fn bandwidth_ppm(reservations: impl IntoIterator<Item = Reservation>) -> u64 {
    // At most 16,384 terms of at most 1,000,000.
    reservations.into_iter().map(Reservation::utilisation_ppm).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn load(text: &str) -> ReservedLoad {
        ReservedLoad::new(text.parse().expect("valid"), Service::ZERO)
    }

    #[test]
    fn alone_a_budget_follows_another_after_a_period() {
        let mut alone = [load("2ms/8ms")];
        settle(&mut alone);
        // 2 ms at once, and then a quarter of the time from 6 ms later at the latest.
        assert_eq!(alone[0].interference_in(0), Some(1_500_000));
        assert_eq!(alone[0].interference_in(8_000_000), Some(3_500_000));
    }

    #[test]
    fn two_budgets_can_meet_back_to_back() {
        let mut both = [load("2ms/8ms"), load("6ms/8ms")];
        settle(&mut both);
        assert_eq!(both[0].interference_in(4_000_000), Some(4_000_000));
        assert_eq!(both[0].interference_in(12_000_000), Some(6_000_000));
    }

    #[test]
    fn a_short_budget_delays_a_long_period_by_little() {
        let mut both = [load("10ms/100ms"), load("1ms/10ms")];
        settle(&mut both);
        // 11 ms at nine tenths of the CPU, less its own 10.
        assert_eq!(both[0].kind, Kind::Reservation { delay: 2_222_223 });
        // A tenth of 10 ms, its share rounded up.
        assert_eq!(both[1].kind, Kind::Reservation { delay: 1_000_001 });
    }

    #[test]
    fn a_whole_cpu_leaves_nothing() {
        let all = load("8ms/8ms");
        for window in [1, 1_000, 86_400_000_000_000] {
            assert_eq!(all.interference_in(window), Some(window));
        }
    }

    /// Constant bandwidth servers with random holders, tick by tick under EDF, against the bound of
    /// each, in every window.
    #[test]
    fn no_holder_gets_more_than_the_bound() {
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        let (mut met, mut checked) = (0, 0);
        while checked < 4_000 {
            let count = rng.random_range(1..4);
            let drawn: Vec<(u64, u64)> = (0..count)
                .map(|_| {
                    let period = rng.random_range(2..14);
                    (rng.random_range(1..=period), period)
                })
                .collect();
            let share: f64 = drawn.iter().map(|(x, y)| *x as f64 / *y as f64).sum();
            if share > 1.0 + 1e-9 {
                continue;
            }
            checked += 1;
            let mut bounds: Vec<_> = drawn.iter().map(|(x, y)| server(*x, *y)).collect();
            settle(&mut bounds);
            let used = traces(&mut rng, &drawn, 120);
            for (bound, used) in bounds.iter().zip(&used) {
                for from in 0..used.len() {
                    let mut total = 0;
                    for (window, &ran) in (1..).zip(&used[from..]) {
                        total += u64::from(ran);
                        let most = bound.interference_in(window).expect("small");
                        assert!(total <= most, "{bound:?} of {drawn:?} used {total} in {window}");
                        met += u64::from(total == most);
                    }
                }
            }
        }
        assert!(met > 10_000, "the bounds are met only {met} times");
    }

    fn server(work: u64, period: u64) -> ReservedLoad {
        ReservedLoad { work, period, kind: Kind::Reservation { delay: period - work } }
    }

    #[derive(Clone, Copy, Default)]
    struct Server {
        left: u64,
        deadline: u64,
        awake: bool,
        keen: bool,
    }

    /// Returns for each server the ticks in which it runs. The holders block and wake at random; at
    /// equal deadlines any server is taken.
    fn traces(rng: &mut ChaCha8Rng, drawn: &[(u64, u64)], ticks: u64) -> Vec<Vec<bool>> {
        let mut all: Vec<Server> = drawn
            .iter()
            .map(|_| Server { keen: rng.random_bool(0.6), ..Server::default() })
            .collect();
        let mut used: Vec<Vec<bool>> = drawn.iter().map(|_| Vec::new()).collect();
        for now in 0..ticks {
            for (one, &(budget, period)) in all.iter_mut().zip(drawn) {
                if !one.awake && rng.random_bool(0.4) {
                    one.awake = true;
                    // The wake-up rule of the constant bandwidth server.
                    let rest = one.deadline.saturating_sub(now);
                    if one.left * period > rest * budget || rest == 0 {
                        (one.left, one.deadline) = (budget, now + period);
                    }
                }
                if one.awake && now >= one.deadline {
                    assert_eq!(one.left, 0, "EDF serves every budget in its period");
                    (one.left, one.deadline) = (budget, now + period);
                }
            }
            let ready = |at: &usize| all[*at].awake && all[*at].left > 0;
            let key = |at: &usize, tie: u64| (all[*at].deadline, tie);
            let runs = (0..all.len())
                .filter(ready)
                .map(|at| (key(&at, rng.random_range(0..9)), at))
                .min()
                .map(|(_, at)| at);
            for (at, one) in all.iter_mut().enumerate() {
                let ran = runs == Some(at);
                used[at].push(ran);
                one.left -= u64::from(ran);
                if ran && rng.random_bool(if one.keen { 0.05 } else { 0.4 }) {
                    one.awake = false;
                }
            }
        }
        used
    }
}
