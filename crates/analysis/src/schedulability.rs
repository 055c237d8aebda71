//! The analysis of a policy: the trait that each row of the table of policies implements, and its tests.

use alloc::vec::Vec;

use punctual_model::Duration;

use crate::edf;
use crate::judge::Judgement;
use crate::load::CpuLoad;
use crate::steps::Steps;
use crate::supply::{Inside, Supply};
use crate::utilisation::{self, Finding};

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

/// The order of tasks in a load. Equal tasks stay in file order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The shorter period first (Liu & Layland, JACM 1973), as the more urgent one.
    Period,
    /// As in the file: the more urgent first, or under first in, first out the order of jobs that
    /// become known together.
    File,
    /// The shorter relative deadline first, an order for reports only.
    Deadline,
}

/// A test that admits or refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// [`utilisation::liu_layland`].
    LiuLayland,
    /// [`utilisation::hyperbolic`].
    Hyperbolic,
    /// [`utilisation::rmdp`].
    Rmdp,
    /// [`utilisation::sha`].
    Sha,
    /// [`edf::density`].
    Density,
    /// The deciding test of the policy, as in [`crate::admit()`].
    Exact,
}

impl Test {
    /// Returns the test's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::LiuLayland => "liu-layland",
            Self::Hyperbolic => "hyperbolic",
            Self::Rmdp => "rmdp",
            Self::Sha => "sha",
            Self::Density => "density",
            Self::Exact => "exact",
        }
    }

    pub(crate) fn sufficient(self) -> Option<fn(&CpuLoad) -> Finding> {
        match self {
            Self::LiuLayland => Some(utilisation::liu_layland),
            Self::Hyperbolic => Some(utilisation::hyperbolic),
            Self::Rmdp => Some(utilisation::rmdp),
            Self::Sha => Some(utilisation::sha),
            Self::Density => Some(edf::density),
            Self::Exact => None,
        }
    }
}
