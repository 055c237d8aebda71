//! The policies, one row each. The analysis of a new policy is a file with one `impl` and a row in
//! [`TABLE`].
//!
//! Its order of dispatching is in `punctual-policy`, which neither imports nor is imported by this
//! crate, so simulating a contract checks the proofs made here (docs/adding-a-policy.md).

use punctual_model::Policy;

use crate::edf;
use crate::edf::demand::DemandVerdict;
use crate::edf_vd::EdfVd;
use crate::fifo;
use crate::fixed_priority::{self, ResponseTime};
use crate::judge::{self, Judgement};
use crate::load::{CpuLoad, Granularity};
use crate::schedulability::{Engine, Order, Schedulability, Test};
use crate::steps::Steps;
use crate::supply::earliest_deadline::supply_demand;
use crate::supply::fixed_priority::all_in_time_inside;
use crate::supply::{Inside, Supply};

/// A row for each policy.
const TABLE: [(Policy, &dyn Schedulability); 6] = [
    (
        Policy::Rmdp,
        &FixedPriority(Order::Period, &[Test::LiuLayland, Test::Rmdp, Test::Sha, Test::Exact]),
    ),
    (Policy::Rm, &FixedPriority(Order::Period, &[Test::LiuLayland, Test::Hyperbolic, Test::Exact])),
    (Policy::Fp, &FixedPriority(Order::File, &[Test::Exact])),
    (Policy::Edf, &EarliestDeadline),
    (Policy::EdfVd, &EdfVd),
    (Policy::Fifo, &FirstIn),
];

/// Returns the row of `policy`.
pub(crate) fn of(policy: Policy) -> &'static dyn Schedulability {
    // A test checks that each policy has a row.
    TABLE.iter().find(|(other, _)| *other == policy).map_or(&EarliestDeadline, |(_, row)| *row)
}

impl Test {
    /// Returns the tests that admission reports under `policy`; the last one decides.
    pub fn of(policy: Policy) -> &'static [Self] {
        of(policy).tests()
    }
}

/// Fixed priorities in the given order, with the tests to report.
struct FixedPriority(Order, &'static [Test]);

impl Schedulability for FixedPriority {
    fn deciding_test(&self) -> &'static str {
        "response-time"
    }

    fn order(&self) -> Order {
        self.0
    }

    fn tests(&self) -> &'static [Test] {
        self.1
    }

    fn fits(&self, load: &CpuLoad, steps: &mut Steps) -> bool {
        fixed_priority::all_in_time(load, steps)
    }

    fn judge(&self, load: &CpuLoad, steps: &mut Steps, _: &mut Steps) -> Judgement {
        judge::fixed_priority(load, steps)
    }

    fn engine(&self) -> Engine {
        Engine::FixedPriority
    }

    fn inside(&self, load: &CpuLoad, supply: &Supply, steps: &mut Steps) -> Inside {
        all_in_time_inside(load, supply, steps)
    }
}

/// Earliest deadline first.
struct EarliestDeadline;

impl Schedulability for EarliestDeadline {
    fn deciding_test(&self) -> &'static str {
        "processor-demand"
    }

    fn order(&self) -> Order {
        Order::Deadline
    }

    fn tests(&self) -> &'static [Test] {
        &[Test::Density, Test::Exact]
    }

    fn fits(&self, load: &CpuLoad, steps: &mut Steps) -> bool {
        edf::demand::processor_demand(load, steps) == DemandVerdict::Fits
    }

    fn judge(&self, load: &CpuLoad, steps: &mut Steps, for_bounds: &mut Steps) -> Judgement {
        let verdict = edf::demand::processor_demand(load, steps);
        let times = edf::response_time::response_times(load, Granularity::Continuous, for_bounds);
        judge::by_demand(load, verdict, times.into_iter().map(ResponseTime::bound))
    }

    fn engine(&self) -> Engine {
        Engine::EarliestDeadline
    }

    fn inside(&self, load: &CpuLoad, supply: &Supply, steps: &mut Steps) -> Inside {
        match supply_demand(load, supply, steps) {
            DemandVerdict::Fits => Inside::Fits,
            DemandVerdict::Exceeds { .. } | DemandVerdict::Overload => Inside::Late,
            DemandVerdict::Undecided => Inside::Undecided,
        }
    }
}

/// First in, first out.
struct FirstIn;

impl Schedulability for FirstIn {
    fn deciding_test(&self) -> &'static str {
        "fifo-response-time"
    }

    fn order(&self) -> Order {
        Order::File
    }

    fn tests(&self) -> &'static [Test] {
        &[Test::Exact]
    }

    fn fits(&self, load: &CpuLoad, steps: &mut Steps) -> bool {
        fifo::all_in_time(load, steps)
    }

    fn judge(&self, load: &CpuLoad, steps: &mut Steps, _: &mut Steps) -> Judgement {
        judge::by_response_time(load, fifo::response_times(load, steps), "the others")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_has_one_row() {
        for (_, policy) in Policy::NAMES {
            assert_eq!(TABLE.iter().filter(|(other, _)| *other == policy).count(), 1, "{policy:?}");
            assert_eq!(of(policy).tests().last(), Some(&Test::Exact), "{policy:?}");
        }
    }
}
