//! Deferrable servers on one CPU: what each takes from everything below it, and what its holder gets.
//!
//! A server has X in each period of length Y and keeps it until it is used
//! (`policy::deferrable_server` decides when). The servers of a CPU have levels of their
//! own, the shorter period first. Theorems 6 and 7 of docs/reservations.md prove the two
//! functions here.
//!
//! # Assumptions
//! The server's driver learns of the end of a budget, and of the start of a period, at most an
//! allowance late. Two switches are charged to each period: further wake-ups of the holder within
//! one are part of its own use.

use alloc::vec::Vec;

use punctual_model::{Duration, HostProfile, Reservation};

use crate::reservation::{ReservedLoad, interference_of};
use crate::steps::{OutOfSteps, Steps};
use crate::switching::with_two_switches;

/// The most servers of one CPU: each has a level of its own.
pub const MOST_SERVERS: usize = 7;

/// The reason why a server does not get its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotServed {
    /// The time within which a job is surely done is longer than the period by so much, at least.
    Late(Duration),
    /// The question was not decided within the steps, or within 64 bits.
    Undecided,
}

impl From<OutOfSteps> for NotServed {
    fn from(_: OutOfSteps) -> Self {
        Self::Undecided
    }
}

/// Returns what a server takes from everything below it (Theorem 6).
pub(crate) fn loads(reservation: Reservation, host: &HostProfile) -> Vec<ReservedLoad> {
    let (work, period) = (charged(reservation, host), reservation.period().as_nanos());
    let late = host.slot_allowance.as_nanos();
    let budgets = ReservedLoad::arrivals(work, period, (period - work).saturating_add(late));
    // What exceeds a budget is taken from the next one, and what was used before the driver noticed
    // follows a period without use.
    let beyond = (late > 0).then(|| ReservedLoad::once(late.saturating_mul(2)));
    [budgets].into_iter().chain(beyond).collect()
}

/// Returns the budget of a server with its switches, which is at most its period.
fn charged(reservation: Reservation, host: &HostProfile) -> u64 {
    let work = with_two_switches(reservation.budget(), host.context_switch);
    work.min(reservation.period().as_nanos())
}

/// Returns the time within which every job of a server's holder is done, whenever it comes, if each
/// needs at most the budget and they are at least a period apart: at most a period. The loads
/// `above` are all above it on its CPU (Theorem 7).
pub(crate) fn job_within(
    reservation: Reservation,
    above: &[ReservedLoad],
    host: &HostProfile,
    steps: &mut Steps,
) -> Result<Duration, NotServed> {
    let late = host.slot_allowance.as_nanos();
    // A job that meets the start of a period has two windows of interference, one on either side.
    let again = above.iter().try_fold(0_u64, |sum, one| {
        sum.checked_add(one.interference_in(1)?)?.checked_add(one.work)
    });
    let own =
        again.and_then(|again| again.checked_add(charged(reservation, host))?.checked_add(late));
    completion(own.ok_or(NotServed::Undecided)?, above, reservation.period().as_nanos(), steps)
        .map(Duration::from_nanos)
}

/// Returns the least t with `own` and the interference of t in t, if that is at most `most`.
fn completion(
    own: u64,
    above: &[ReservedLoad],
    most: u64,
    steps: &mut Steps,
) -> Result<u64, NotServed> {
    let mut t = own;
    while t <= most {
        steps.take(above.len() + 1)?;
        let all = interference_of(above, t).and_then(|above| above.checked_add(own));
        match all.ok_or(NotServed::Undecided)? {
            next if next == t => return Ok(t),
            next => t = next,
        }
    }
    Err(NotServed::Late(Duration::from_nanos(t - most)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::Service;

    fn reservation(text: &str) -> Reservation {
        text.parse().expect("valid")
    }

    fn within(all: &[&str], host: &HostProfile) -> Result<Duration, NotServed> {
        let (own, above) = all.split_last().expect("one");
        let above: Vec<ReservedLoad> =
            above.iter().flat_map(|one| loads(reservation(one), host)).collect();
        job_within(reservation(own), &above, host, &mut Steps::default())
    }

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn two_budgets_can_be_used_back_to_back() {
        let loads = loads(reservation("2ms/10ms"), &HostProfile::ideal(1));
        let most = |window: u64| interference_of(&loads, window * 1_000_000);
        let expected = [(1, 2), (2, 2), (3, 4), (12, 4), (13, 6)];
        // In 1 ms no more than that can be used; the bound says 2, as it counts whole budgets.
        for (window, budget) in expected {
            assert_eq!(most(window), Some(budget * 1_000_000), "{window}");
        }
    }

    #[test]
    fn alone_a_server_serves_each_job_at_once() {
        let ideal = HostProfile::ideal(1);
        assert_eq!(within(&["2ms/10ms"], &ideal), Ok(ms(2)));
        let host = HostProfile {
            context_switch: Service::from_millis(1),
            slot_allowance: Service::from_millis(3),
            ..ideal
        };
        assert_eq!(within(&["2ms/10ms"], &host), Ok(ms(7)));
    }

    #[test]
    fn beneath_another_it_waits_for_its_budgets_on_both_sides_of_a_period() {
        let ideal = HostProfile::ideal(1);
        // Three budgets of 2 ms in 15, and two more because of the cut.
        assert_eq!(within(&["2ms/10ms", "5ms/30ms"], &ideal), Ok(ms(15)));
        assert_eq!(within(&["4ms/10ms", "5ms/20ms"], &ideal), Err(NotServed::Late(ms(1))));
    }

    #[test]
    fn a_whole_cpu_is_undecided_or_late_but_never_an_error_of_arithmetic() {
        let ideal = HostProfile::ideal(1);
        assert!(within(&["10ms/10ms", "1ms/1s"], &ideal).is_err());
        let most = Reservation::new(Service::from_nanos(1 << 62), Duration::from_nanos(1 << 62));
        let loads = loads(most.expect("valid"), &ideal);
        assert!(
            job_within(reservation("1ms/10ms"), &loads, &ideal, &mut Steps::default()).is_err()
        );
    }
}
