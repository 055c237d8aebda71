//! Simulates a CPU reservation as a hard constant-bandwidth server: X of processor time every Y,
//! never more.
//!
//! See Abeni and Buttazzo, RTSS 1998, with the hard variant that Linux's `SCHED_DEADLINE`
//! implements (sched(7); kernel documentation, "Deadline Task Scheduling", §2): an exhausted server
//! does not run until its deadline, when it is replenished. On a live host the kernel does this.

use punctual_model::{Instant, Reservation, Service};

/// The state of one reservation.
///
/// Call order: [`wake`](Self::wake) when its work becomes runnable. Then, as long as there is work,
/// run it for at most [`left`](Self::left) and pass the time it ran to [`charge`](Self::charge).
/// When it is throttled, call [`replenish`](Self::replenish) at the instant returned, and continue.
#[derive(Clone, Copy, Debug)]
pub struct Cbs {
    reservation: Reservation,
    left: Service,
    deadline: Instant,
}

/// The state of a reservation after a charge.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// There is budget left.
    Runnable {
        /// The remaining budget.
        left: Service,
    },
    /// The budget is exhausted until it is replenished.
    Throttled {
        /// The instant at which to call [`Cbs::replenish`].
        until: Instant,
    },
}

impl Cbs {
    /// Makes a reservation that has never run.
    pub fn new(reservation: Reservation) -> Self {
        Self { reservation, left: Service::ZERO, deadline: Instant::ZERO }
    }

    /// Makes its work runnable at `now`. Keeps the current budget and deadline only if using the
    /// budget by then would not exceed the reserved bandwidth; otherwise starts a new period with a
    /// full budget.
    pub fn wake(&mut self, now: Instant) {
        let (budget, period) = (self.reservation.budget(), self.reservation.period());
        let until_deadline = self.deadline.saturating_since(now);
        // Computes left / until_deadline > budget / period in integers.
        let left_share = u128::from(self.left.as_nanos()) * u128::from(period.as_nanos());
        let reserved_share = u128::from(until_deadline.as_nanos()) * u128::from(budget.as_nanos());
        if until_deadline.is_zero() || left_share > reserved_share {
            self.left = budget;
            self.deadline = now + period;
        }
    }

    /// Returns the budget left in this period.
    pub fn left(&self) -> Service {
        self.left
    }

    /// Returns the end of this period, before which the remaining budget is served.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Charges its work for running for `ran`, at most [`left`](Self::left).
    pub fn charge(&mut self, ran: Service) -> Charge {
        self.left = self.left.saturating_sub(ran);
        if self.left.is_zero() {
            Charge::Throttled { until: self.deadline }
        } else {
            Charge::Runnable { left: self.left }
        }
    }

    /// Restores the budget, at the instant returned in [`Charge::Throttled`].
    pub fn replenish(&mut self) {
        self.left = self.reservation.budget();
        self.deadline += self.reservation.period();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    fn cbs() -> Cbs {
        Cbs::new("2ms/8ms".parse().expect("valid"))
    }

    #[test]
    fn a_hog_gets_its_budget_once_a_period_and_no_more() {
        let mut cbs = cbs();
        cbs.wake(ms(0));
        for period in 1..4 {
            assert_eq!(
                cbs.charge(Service::from_millis(2)),
                Charge::Throttled { until: ms(8 * period) }
            );
            cbs.replenish();
        }
    }

    #[test]
    fn waking_late_in_a_period_with_a_full_budget_starts_a_new_one() {
        let mut cbs = cbs();
        cbs.wake(ms(0));
        assert_eq!(
            cbs.charge(Service::from_millis(1)),
            Charge::Runnable { left: Service::from_millis(1) }
        );
        // 1 ms left until 8: at 4 that is exactly the reserved quarter, so it is kept.
        cbs.wake(ms(4));
        assert_eq!(cbs.left(), Service::from_millis(1));
        // At 5 it would be a third.
        cbs.wake(ms(5));
        assert_eq!(cbs.left(), Service::from_millis(2));
        assert_eq!(cbs.charge(Service::from_millis(2)), Charge::Throttled { until: ms(13) });
    }
}
