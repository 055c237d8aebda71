//! A task set inside a reservation: whether all tasks are in time, and the least budget with which
//! they are.
//!
//! The assumptions, sources and limits of the two tests are in [`super::fixed_priority`] and
//! [`super::earliest_deadline`].

use punctual_model::{Duration, Policy, Reservation, Service};

use crate::load::CpuLoad;
use crate::policies;
use crate::steps::Steps;

use super::bound::{Guarantee, Inside, Supply};

/// Judges `load`, in priority order, inside `supply` under `policy`.
///
/// The load must hold no reservations of its own, because nesting is not analysed: then the result
/// is undecided. It is also undecided for every load under `edf-vd` and `fifo`, which are not
/// analysed inside a supply.
pub fn fits_inside(policy: Policy, load: &CpuLoad, supply: &Supply, steps: &mut Steps) -> Inside {
    policies::of(policy).inside(load, supply, steps)
}

/// The result of [`least_budget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastBudget {
    /// A sufficient reservation: the task set was proven to fit inside it.
    pub reservation: Reservation,
    /// Whether one nanosecond less was proven to fail the test. Otherwise that was undecided, and a
    /// smaller budget may do.
    pub is_least: bool,
}

/// Returns the least budget every `period` inside which `load` fits, or `None` if not even the
/// whole period is proven to suffice.
///
/// # Why bisection
/// For a given period both supply bounds grow with the budget in every window, and with them both
/// tests: a load that fits inside X fits inside X + 1. Each trial may take `steps_a_trial`, and
/// there are at most 65. The result was itself tested, so it holds even if a trial was undecided.
pub fn least_budget(
    policy: Policy,
    load: &CpuLoad,
    guarantee: Guarantee,
    period: Duration,
    steps_a_trial: u64,
) -> Option<LeastBudget> {
    let trial = |budget| {
        let reservation = Reservation::new(Service::from_nanos(budget), period).ok()?;
        let supply = Supply::new(reservation, guarantee);
        Some((reservation, fits_inside(policy, load, &supply, &mut Steps::new(steps_a_trial))))
    };
    let (reservation, Inside::Fits) = trial(period.as_nanos())? else { return None };
    let mut best = LeastBudget { reservation, is_least: true };
    // Every trial up to `low` failed to prove a fit; `best` succeeded.
    let (mut low, mut high) = (0, period.as_nanos());
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let (reservation, answer) = trial(middle)?;
        if answer == Inside::Fits {
            high = middle;
            best.reservation = reservation;
        } else {
            low = middle;
            best.is_least = answer == Inside::Late;
        }
    }
    // `is_least` is the result of the last failed trial, which was at `high − 1`; a budget of zero
    // is not a reservation at all.
    best.is_least |= low == 0;
    Some(best)
}
