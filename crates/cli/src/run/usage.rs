//! What a program used, taken when its first process has ended.

use punctual_linux::clock;
use punctual_linux::process::Ended;
use punctual_model::command::Backend;
use punctual_model::reservation::Enforcement;
use punctual_model::{Duration, Reservation, Service};

use super::granted::Told;
use super::start::{Running, Terms};

/// A program that has ended.
pub(super) struct Ran {
    /// How its first process ended, and what that and the children it waited for used.
    pub(super) ended: Ended,
    /// From its first instruction to its end.
    pub(super) wall: Duration,
    /// Of all its processes, as far as known.
    pub(super) exec_time: Service,
    /// `None`: it ran as an ordinary program.
    pub(super) reserved: Option<Reserved>,
    /// Its processes that go on as ordinary ones.
    pub(super) set_free: usize,
}

/// What it used of its reservation.
pub(super) struct Reserved {
    pub(super) terms: Terms,
    /// Periods begun while it ran: in each it could use a budget.
    pub(super) periods: u64,
    /// A budget for each.
    pub(super) offered: Service,
    /// Used of the reservation; `None` where the kernel keeps no account of it.
    pub(super) inside: Option<Service>,
    /// Used beside it.
    pub(super) outside: Option<Service>,
    /// Slots of the timetable that it was given.
    pub(super) slots: Option<u64>,
    /// How often the kernel refused to start or stop it: not zero is a broken promise.
    pub(super) failures: u64,
    /// Why the broker took it back, if it did.
    pub(super) revoked: Option<String>,
}

impl Ran {
    /// Takes the figures while the reservation still stands.
    pub(super) fn of(running: &Running, ended: Ended) -> Self {
        let now = clock::now();
        let held = running.held.as_ref();
        let usage = ended.usage;
        let exec_time = held.and_then(|held| held.used()).unwrap_or(usage.processor);
        let reserved = running.terms.clone().map(|terms| {
            let (inside, outside) = match (terms.choice.backend, held) {
                (Backend::Kernel, _) | (_, None) => {
                    // Only the first thread is inside.
                    let first = usage.first_thread.unwrap_or(usage.processor);
                    (Some(first), Some(usage.processor.saturating_sub(first)))
                }
                (Backend::Timetable, Some(held)) => match (terms.enforcement, held.used()) {
                    // It is frozen in all other time.
                    (Enforcement::Hard, used) => (used, used.map(|_| Service::ZERO)),
                    (Enforcement::Soft, used) => {
                        let inside = held.used_inside();
                        let outside = used.zip(inside).map(|(all, of)| all.saturating_sub(of));
                        (inside, outside)
                    }
                },
            };
            let revoked = running.told.as_ref().and_then(Told::revoked).cloned();
            // From there on nothing was offered.
            let until = revoked.as_ref().map_or(now, |(at, _)| *at);
            let periods = periods(until.saturating_since(running.since), terms.reservation);
            // Saturates: after 584 years.
            let offered = terms.reservation.budget().checked_mul(periods).unwrap_or(Service::MAX);
            Reserved {
                periods,
                offered,
                inside,
                outside,
                slots: held.map(|held| held.slots()),
                failures: held.map_or(0, |held| held.failures()),
                revoked: revoked.map(|(_, why)| why),
                terms,
            }
        });
        let set_free = held.map_or(0, |held| held.processes().len());
        let wall = now.saturating_since(running.started);
        Self { ended, wall, exec_time, reserved, set_free }
    }
}

impl Reserved {
    /// What it used of what was offered, in percent. Above 100: a timetable gives at least what is
    /// reserved.
    pub(super) fn percent(&self) -> Option<f64> {
        self.inside.map(|inside| 100.0 * inside.as_secs_f64() / self.offered.as_secs_f64())
    }
}

/// One that has begun counts; there is always one.
fn periods(held_for: Duration, reservation: Reservation) -> u64 {
    held_for.as_nanos().div_ceil(reservation.period().as_nanos()).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_that_has_begun_counts() {
        let reservation = "2ms/8ms".parse().expect("valid");
        for (nanos, count) in [(0, 1), (1, 1), (8_000_000, 1), (8_000_001, 2), (80_000_000, 10)] {
            assert_eq!(periods(Duration::from_nanos(nanos), reservation), count);
        }
    }
}
