//! Decides when the holders of a deferrable server may run at its level.
//!
//! A server has a budget of X. Its holders use it whenever they wake, it is full again at the start
//! of each period Y, and what is left at the end of a period is lost (Strosnider, Lehoczky & Sha,
//! IEEE Transactions on Computers 44, 1995). Holders that have used it go on as ordinary threads
//! until the next period. The paper's server stops exactly; a driver is told of the end of a budget
//! a little late, so what was used beyond it is taken from the next budgets.
//!
//! `docs/reservations.md` has what it guarantees (Theorem 7) and what it takes from everything below
//! it (Theorem 6).

use punctual_model::{Duration, Instant, Reservation, Service};

/// The state of a server, and the next time at which its driver must look.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The rest of the budget. Its holders run at the server's level if it is not zero, and
    /// otherwise below every server.
    pub left: Service,
    /// The start of the next period, with a full budget.
    pub until: Instant,
    /// A period has ended in which nothing was used: the budget is full, and the driver need not
    /// look again before some is used.
    pub idle: bool,
}

/// The use of a period that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// The processor time that the holders used in it, at whichever level.
    pub used: Service,
    /// The budget was used up before its end.
    pub ran_out: bool,
}

/// A deferrable server, as its driver sees it.
///
/// Call order: [`at`](Self::at) at each `until`, and whenever the budget is used up; after an `idle`
/// decision only once some is used. `used` is always the processor time that the holders have used
/// in all, at whichever level. Nothing is allocated, and every call is O(1).
///
/// What was used since the last call counts in the period of that call: a driver that looks late,
/// or notices late that budget is used again, gives that much more, which Theorem 6 counts.
#[derive(Clone, Debug)]
pub struct DeferrableServer {
    reservation: Reservation,
    period_end: Instant,
    /// The value of `used` at the first call of this period.
    at_start: Service,
    /// The value of `used` at which the budget of this period ends.
    limit: Service,
    /// The budget is used up.
    exhausted: bool,
    /// The time by which the driver may be late.
    allowance: Service,
    /// What was used beyond earlier budgets and has not been taken from later ones.
    owed: Service,
    /// The use of the last period that has ended with any, until it is taken.
    spent: Option<Spent>,
}

impl DeferrableServer {
    /// Starts a server with a full budget at `now`, whose driver learns of the end of a budget up to
    /// `allowance` late. What is used beyond that is forgiven: a hypervisor took the CPU meanwhile,
    /// or the driver was kept from it, and what the holder would owe could be many budgets.
    pub fn new(reservation: Reservation, allowance: Service, now: Instant, used: Service) -> Self {
        Self {
            reservation,
            period_end: now.saturating_add(reservation.period()),
            at_start: used,
            limit: used + reservation.budget(),
            exhausted: false,
            allowance,
            owed: Service::ZERO,
            spent: None,
        }
    }

    /// Returns the budget and the period.
    pub fn reservation(&self) -> Reservation {
        self.reservation
    }

    /// Returns the state at `now`, which is not before the last call.
    pub fn at(&mut self, now: Instant, used: Service) -> Decision {
        let mut idle = false;
        if now >= self.period_end {
            self.use_up(used);
            let (budget, period) = (self.reservation.budget(), self.reservation.period());
            let missed = (now - self.period_end).as_nanos() / period.as_nanos();
            let times = |of: u64, count: u64| of.saturating_mul(count);
            let passed = Duration::from_nanos(times(period.as_nanos(), missed.saturating_add(1)));
            self.period_end = self.period_end.saturating_add(passed);
            // The budgets of the periods in between pay first.
            let paid = Service::from_nanos(times(budget.as_nanos(), missed));
            self.owed = self.owed.saturating_sub(paid);
            idle = used == self.at_start && self.owed.is_zero();
            let in_it = used.saturating_sub(self.at_start);
            let spent = Spent { used: in_it, ran_out: self.exhausted };
            self.spent = (!in_it.is_zero()).then_some(spent);
            self.replenish(used);
        }
        self.use_up(used);
        let left = if self.exhausted { Service::ZERO } else { self.limit - used };
        Decision { left, until: self.period_end, idle }
    }

    /// Changes the budget and the period at `now`, which is not before the last call.
    ///
    /// If the period stays, this one goes on with the new budget, of which what was used in it is
    /// taken. So the server never gives more than one that had the larger budget all the time.
    /// Otherwise a period begins; what was used beyond earlier budgets is taken from the new ones. So
    /// the old server has left by `now`, and admission counts it as one that has.
    pub fn change(&mut self, reservation: Reservation, now: Instant, used: Service) {
        self.use_up(used);
        let old = core::mem::replace(&mut self.reservation, reservation);
        if old.period() == reservation.period() {
            let limit = (self.limit + reservation.budget()).saturating_sub(old.budget());
            self.limit = limit.max(self.at_start);
            self.exhausted = used >= self.limit;
            return;
        }
        self.period_end = now.saturating_add(reservation.period());
        self.replenish(used);
    }

    /// Returns the use of the period that ended with the last call of [`at`](Self::at), once, if one
    /// did and anything was used in it.
    pub fn take_spent(&mut self) -> Option<Spent> {
        self.spent.take()
    }

    /// Begins a period with what is left of its budget when the owed time is taken from it.
    fn replenish(&mut self, used: Service) {
        let budget = self.reservation.budget();
        let full = budget.saturating_sub(self.owed);
        self.owed = self.owed.saturating_sub(budget);
        self.limit = used + full;
        self.exhausted = full.is_zero();
        self.at_start = used;
    }

    /// Notes that the budget is used up, if it is.
    fn use_up(&mut self, used: Service) {
        if !self.exhausted && used >= self.limit {
            self.exhausted = true;
            self.owed += (used - self.limit).min(self.allowance);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;

    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    fn ns(n: u64) -> Service {
        Service::from_nanos(n)
    }

    #[test]
    fn the_use_of_each_period_with_any_is_told_once() {
        let mut server = server("3ns/10ns");
        let _ = server.at(at(4), ns(2));
        assert_eq!(server.take_spent(), None, "it has not ended");
        let _ = server.at(at(10), ns(2));
        assert_eq!(server.take_spent(), Some(Spent { used: ns(2), ran_out: false }));
        assert_eq!(server.take_spent(), None);
        let _ = server.at(at(20), ns(2));
        assert_eq!(server.take_spent(), None, "nothing was used");
        let _ = server.at(at(23), ns(5));
        let _ = server.at(at(30), ns(9));
        assert_eq!(server.take_spent(), Some(Spent { used: ns(7), ran_out: true }));
    }

    fn server(text: &str) -> DeferrableServer {
        DeferrableServer::new(text.parse().expect("valid"), ns(7), at(0), ns(0))
    }

    fn decision(left: u64, until: u64) -> Decision {
        Decision { left: ns(left), until: at(until), idle: false }
    }

    #[test]
    fn a_budget_is_kept_until_it_is_used_and_is_full_again_in_each_period() {
        let mut server = server("3ns/10ns");
        assert_eq!(server.at(at(9), ns(1)), decision(2, 10));
        // The rest is lost, and the new budget follows the old one back to back.
        assert_eq!(server.at(at(10), ns(2)), decision(3, 20));
        assert_eq!(server.at(at(13), ns(5)), decision(0, 20));
        // Ordinary use counts against no budget.
        assert_eq!(server.at(at(20), ns(9)), decision(3, 30));
    }

    #[test]
    fn what_was_used_beyond_a_budget_is_taken_from_the_next_ones() {
        let mut server = server("3ns/10ns");
        assert_eq!(server.at(at(5), ns(5)), decision(0, 10));
        assert_eq!(server.at(at(10), ns(5)), decision(1, 20));
        assert_eq!(server.at(at(18), ns(13)), decision(0, 20));
        // Seven too much: two budgets are gone, and one of the third.
        assert_eq!(server.at(at(20), ns(13)), decision(0, 30));
        assert_eq!(server.at(at(30), ns(20)), decision(0, 40));
        assert_eq!(server.at(at(40), ns(20)), decision(2, 50));
    }

    #[test]
    fn a_change_begins_a_period_and_forgives_nothing() {
        let mut server = server("3ns/10ns");
        assert_eq!(server.at(at(4), ns(1)), decision(2, 10));
        server.change("5ns/6ns".parse().expect("valid"), at(5), ns(2));
        assert_eq!(server.at(at(5), ns(2)), decision(5, 11));
        // Three too much, which the next server owes.
        assert_eq!(server.at(at(10), ns(10)), decision(0, 11));
        server.change("2ns/8ns".parse().expect("valid"), at(10), ns(10));
        assert_eq!(server.at(at(10), ns(10)), decision(0, 18));
        assert_eq!(server.at(at(18), ns(10)), decision(1, 26));
        assert_eq!(server.at(at(26), ns(10)), Decision { idle: true, ..decision(2, 34) });
    }

    #[test]
    fn another_budget_holds_within_the_period_and_owes_nothing() {
        let change = |server: &mut DeferrableServer, text: &str, at_ns, used| {
            server.change(text.parse().expect("valid"), at(at_ns), ns(used));
        };
        let mut server = server("4ns/10ns");
        assert_eq!(server.at(at(3), ns(1)), decision(3, 10));
        change(&mut server, "6ns/10ns", 4, 2);
        assert_eq!(server.at(at(4), ns(2)), decision(4, 10));
        // It used more than the smaller budget while it had the larger one.
        change(&mut server, "1ns/10ns", 5, 3);
        assert_eq!(server.at(at(5), ns(3)), decision(0, 10));
        assert_eq!(server.at(at(10), ns(3)), decision(1, 20));
        // Two beyond the budget stay owed, whatever it is.
        assert_eq!(server.at(at(15), ns(6)), decision(0, 20));
        change(&mut server, "5ns/10ns", 16, 6);
        assert_eq!(server.at(at(16), ns(6)), decision(2, 20));
        assert_eq!(server.at(at(20), ns(6)), decision(3, 30));
    }

    #[test]
    fn what_no_driver_could_have_ended_is_forgiven() {
        let mut server = server("3ns/10ns");
        assert_eq!(server.at(at(9), ns(9)), decision(0, 10));
        assert_eq!(server.at(at(10), ns(9)), decision(0, 20));
        let mut stolen =
            DeferrableServer::new("3ns/10ns".parse().expect("valid"), ns(1), at(0), ns(0));
        assert_eq!(stolen.at(at(9), ns(9)), decision(0, 10));
        assert_eq!(stolen.at(at(10), ns(9)), decision(2, 20));
    }

    #[test]
    fn after_a_period_without_use_the_driver_need_not_look() {
        let mut asleep = server("3ns/10ns");
        assert_eq!(asleep.at(at(10), ns(0)), Decision { idle: true, ..decision(3, 20) });
        // What it took to notice is not counted.
        assert_eq!(asleep.at(at(57), ns(1)), decision(3, 60));
        assert_eq!(asleep.at(at(60), ns(2)), decision(3, 70));
        assert_eq!(asleep.at(at(70), ns(2)), Decision { idle: true, ..decision(3, 80) });
        assert_eq!(asleep.at(at(79), ns(3)), decision(2, 80));
    }

    /// Compares a driver that looks at every instant with the definition.
    #[test]
    fn no_window_has_more_than_a_budget_for_each_period_that_it_meets() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        for _ in 0..300 {
            let period = rng.random_range(2..12);
            let budget = rng.random_range(1..=period);
            let mut server = server(&format!("{budget}ns/{period}ns"));
            let (mut used, mut served) = (0, Vec::new());
            let mut wants = false;
            for now in 0..10 * period {
                let left = server.at(at(now), ns(used)).left;
                if rng.random_bool(0.3) {
                    wants = !wants;
                }
                served.push(u64::from(wants && !left.is_zero()));
                used += u64::from(wants);
            }
            for (k, window) in served.chunks(period as usize).enumerate() {
                let sum: u64 = window.iter().sum();
                assert!(sum <= budget, "{sum} of {budget} in period {k}");
            }
        }
    }
}
