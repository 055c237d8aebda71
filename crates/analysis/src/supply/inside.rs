//! A task set inside a reservation: who is in time, and the least budget with which all are.
//!
//! The assumptions, sources and limits of the two tests are in [`super::fixed_priority`] and
//! [`super::earliest_deadline`].

use punctual_model::{Duration, Policy, Reservation, Service};

use crate::load::CpuLoad;
use crate::policies;
use crate::ratio::Utilisation;
use crate::steps::Steps;

use super::bound::{Guarantee, Supply};

/// Whether a task set meets its deadlines inside a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// Proven: every deadline is met.
    Fits,
    /// Proven: for some arrivals and some supply that the reservation allows, one is missed.
    /// (With quanta, jitter or deadlines beyond the period under fixed priorities: not proven in
    /// time.)
    Late,
    /// Not decided within the steps.
    Undecided,
}

/// Judges `load`, in priority order, inside `supply` under `policy`.
///
/// The load must hold no reservations of its own (nesting is not analysed): one that does is
/// undecided, and so is every load under `edf-vd` and `fifo`, which are not analysed inside a supply.
pub fn fits_inside(policy: Policy, load: &CpuLoad, supply: &Supply, steps: &mut Steps) -> Inside {
    policies::of(policy).inside(load, supply, steps)
}

/// The answer of [`least_budget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastBudget {
    /// Sufficient: the task set was proven to fit inside it.
    pub reservation: Reservation,
    /// Whether one nanosecond less was proven not to pass the test. Otherwise it was undecided, and
    /// a smaller budget may do.
    pub is_least: bool,
}

/// The least budget every `period` inside which `load` fits; `None` if not even the whole period
/// is proven to do.
///
/// # Why bisection
/// For a given period both supply bounds grow with the budget in every window, and with them both
/// tests: what fits inside X fits inside X + 1. Each trial may take `steps_a_trial`, and there are
/// at most 65; the result was itself tested, so it holds even where a trial stayed undecided.
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
    // Everything at most `low` was not proven to fit; `best` was.
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
    // `is_least` is the answer of the last failed trial, which was at `high − 1`; a budget of zero
    // is no reservation at all.
    best.is_least |= low == 0;
    Some(best)
}

/// What keeps the holder from the whole CPU, as if it were a task: `(Y − X) / Y`. With it, "the
/// tasks need more than X/Y" is "the sum is above one", and the hyperperiod counts Y in.
pub(super) fn absence(supply: &Supply) -> Utilisation {
    let mut sum = Utilisation::ZERO;
    sum.add(supply.unserved(), supply.numbers().1);
    sum
}
