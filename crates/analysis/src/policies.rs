//! The policies, one row each. The analysis of a new policy is a file with one `impl` and a row in
//! [`TABLE`].
//!
//! Its order of dispatching is in `punctual-policy`, which neither imports nor is imported by this
//! crate, so simulating a contract checks the proofs made here (docs/adding-a-policy.md).

use alloc::vec::Vec;

use punctual_model::{Duration, Policy};

use crate::breakdown::Test;
use crate::edf;
use crate::edf::demand::DemandVerdict;
use crate::edf_vd::EdfVd;
use crate::fifo;
use crate::fixed_priority::{self, ResponseTime};
use crate::judge::{self, Judgement};
use crate::load::{CpuLoad, Granularity};
use crate::order::Order;
use crate::steps::Steps;
use crate::supply::earliest_deadline::supply_demand;
use crate::supply::fixed_priority::all_in_time_inside;
use crate::supply::{Inside, Supply};

/// The proofs about the tasks of one CPU under one policy.
pub(crate) trait Schedulability: Sync {
    /// Returns the name of the deciding test.
    fn deciding_test(&self) -> &'static str;

    /// Returns the promise to the tasks of an admitted contract.
    fn promise(&self) -> &'static str {
        "every task meets its deadline"
    }

    /// Returns the order in which a load lists its tasks.
    fn order(&self) -> Order;

    /// Returns the tests that admission reports, the cheapest first and the deciding one last.
    fn tests(&self) -> &'static [Test];

    /// Returns whether everything on the CPU is certainly in time.
    fn fits(&self, load: &CpuLoad, steps: &mut Steps) -> bool;

    /// Judges one CPU and returns the proof for each task.
    ///
    /// If the deciding test gives no bounds, `for_bounds` is spent on finding them; the verdict
    /// does not depend on it.
    fn judge(&self, load: &CpuLoad, steps: &mut Steps, for_bounds: &mut Steps) -> Judgement;

    /// Returns the engine that finds the same verdict one task at a time.
    fn engine(&self) -> Engine {
        Engine::FullTest
    }

    /// Judges a load inside a reservation; undecided if no such test is known.
    fn inside(&self, _: &CpuLoad, _: &Supply, _: &mut Steps) -> Inside {
        Inside::Undecided
    }

    /// Returns the deadline by which a job of each task is scheduled while no job needs more than
    /// its wcet. An empty list means each task's own deadline.
    fn virtual_deadlines(&self, _: &CpuLoad) -> Vec<Duration> {
        Vec::new()
    }
}

/// The way to admit tasks one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    /// A certificate for each task.
    FixedPriority,
    /// A line above each task's demand.
    EarliestDeadline,
    /// The full test, each time.
    FullTest,
}

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
