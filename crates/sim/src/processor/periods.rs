//! Provides X in every period of Y, wanted or not.

use punctual_model::{Duration, Instant, Reservation};

use super::{Processor, Stretch};

/// The place of the budget in its period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At the start.
    Early,
    /// At the end.
    Late,
    /// At the start of the first period and at the end of all others. The longest stretch without
    /// service, `2(Y − X)`, then begins when the first budget ends (Shin & Lee, RTSS 2003, §3).
    EarlyThenLate,
}

/// A reservation with consecutive periods from an origin on. Unused budget is lost.
#[derive(Clone, Copy, Debug)]
pub struct Periods {
    reservation: Reservation,
    origin: Instant,
    place: Place,
}

impl Periods {
    /// Makes a processor of `reservation`. Its first period begins at `origin`, and there is no
    /// service before.
    pub fn new(reservation: Reservation, origin: Instant, place: Place) -> Self {
        Self { reservation, origin, place }
    }
}

impl Processor for Periods {
    const WHOLE: bool = false;

    fn at(&mut self, now: Instant, _: bool) -> Stretch {
        if now < self.origin {
            return Stretch { served: false, until: self.origin };
        }
        let (period, budget) =
            (self.reservation.period(), self.reservation.budget().at_full_speed());
        let since = now - self.origin;
        let offset = since % period;
        let begin = now - offset;
        let first = since < period;
        let early = match self.place {
            Place::Early => true,
            Place::Late => false,
            Place::EarlyThenLate => first,
        };
        let start = if early { Duration::ZERO } else { period - budget };
        let end = start + budget;
        if offset < start {
            Stretch { served: false, until: begin + start }
        } else if offset < end {
            Stretch { served: true, until: begin + end }
        } else {
            Stretch { served: false, until: begin + period }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn ns(n: u64) -> Instant {
        Instant::from_nanos(n)
    }

    #[test]
    fn a_budget_lies_where_it_is_put() {
        let reservation = "2ns/8ns".parse().expect("valid");
        for (place, served) in [
            (Place::Early, [0, 1, 8, 9, 16, 17]),
            (Place::Late, [6, 7, 14, 15, 22, 23]),
            (Place::EarlyThenLate, [0, 1, 14, 15, 22, 23]),
        ] {
            let mut periods = Periods::new(reservation, ns(5), place);
            let seen: Vec<u64> =
                (0..29).filter(|now| periods.at(ns(*now), true).served).map(|at| at - 5).collect();
            assert_eq!(seen, served, "{place:?}");
            // Calls at only the returned instants give the same answers.
            let mut now = ns(0);
            while now < ns(29) {
                let stretch = periods.at(now, true);
                assert!(stretch.until > now);
                for at in now.as_nanos()..stretch.until.as_nanos().min(29) {
                    assert_eq!(stretch.served, periods.at(ns(at), true).served, "{place:?} {at}");
                }
                now = stretch.until;
            }
        }
    }
}
