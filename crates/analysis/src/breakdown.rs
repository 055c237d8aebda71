//! Search for how far a contract's work can grow before it is no longer admitted.
//!
//! Every wcet is multiplied by one factor until a test refuses. The largest admitted factor is the
//! *critical scaling factor* of Lehoczky, Sha & Ding (RTSS 1989), and the utilisation there is
//! their *breakdown utilisation*. A factor above one says how much room is left; one below says how
//! much must be saved.
//!
//! # What is scaled
//! The wcet, the quantum and the last segment of every task, including upcalls, are scaled.
//! Switches, reservations, channels and streams are not. All three are rounded up; for the last
//! segment, the wcet and the work before the last segment are scaled and subtracted. So no amount
//! of work shrinks as the factor grows, and `last_segment ≤ quantum ≤ wcet` still holds.
//!
//! # Why bisection works
//! On one CPU, a test that refuses some work also refuses more of it. On several CPUs, more work
//! may change the mapping, so there the result is a factor that is admitted and whose successor is
//! not. The returned factor was itself tested; "undecided" counts as refused.
//!
//! # Units
//! Factors are exact, in millionths; times are in nanoseconds.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use punctual_model::{Contract, Duration, HostProfile, Service, Task, TaskSpec};
use thiserror::Error;

use crate::examination::{examine, fits, load_of_first_cpu};
use crate::load::CpuLoad;
use crate::ratio::Ratio;
pub use crate::schedulability::Test;
use crate::steps::Steps;

/// A positive factor in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Factor(u64);

impl Factor {
    /// The work as declared.
    pub const ONE: Self = Self(1_000_000);

    /// The smallest factor.
    const LEAST: Self = Self(1);

    /// Creates a factor of `millionths`, or returns `None` for zero.
    pub fn from_millionths(millionths: u64) -> Option<Self> {
        (millionths > 0).then_some(Self(millionths))
    }

    /// Returns the factor in millionths.
    pub fn millionths(self) -> u64 {
        self.0
    }

    /// Returns `work · self`, rounded up, or `None` if that exceeds 64 bits.
    fn times(self, work: u64) -> Option<u64> {
        let area = u128::from(work) * u128::from(self.0);
        u64::try_from(area.div_ceil(u128::from(Self::ONE.0))).ok()
    }
}

/// Prints the exact value: `1.25`, `0.000001`, `2`.
impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, mut rest, mut digits) = (self.0 / Self::ONE.0, self.0 % Self::ONE.0, 6);
        if rest == 0 {
            return f.pad(&alloc::format!("{whole}"));
        }
        while rest % 10 == 0 {
            (rest, digits) = (rest / 10, digits - 1);
        }
        f.pad(&alloc::format!("{whole}.{rest:0digits$}"))
    }
}

/// The point at which a contract stops being admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breakdown {
    /// The critical scaling factor: it is admitted, and a millionth more is not.
    pub factor: Factor,
    /// The utilisation of one CPU by the scaled tasks, rounded up, without switches and
    /// reservations.
    pub utilisation: Ratio,
}

/// The error of a test that refuses even the smallest factor.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("admits no factor: {why}")]
pub struct NeverAdmitted {
    /// The test's reason for refusing the smallest factor.
    pub why: String,
}

/// Returns `contract` with all work multiplied by `factor`, or `None` if a wcet would be longer
/// than its deadline.
pub fn scaled(contract: &Contract, factor: Factor) -> Option<Contract> {
    let tasks = contract.tasks.iter().map(|task| scaled_task(task, factor));
    Some(Contract { tasks: tasks.collect::<Option<_>>()?, ..contract.clone() })
}

fn scaled_task(task: &Task, factor: Factor) -> Option<Task> {
    let spec = task.spec().clone();
    let times = |work: Service| factor.times(work.as_nanos());
    let (wcet, quantum) = (times(spec.wcet)?, times(spec.quantum)?);
    let wcet_high = match spec.wcet_high {
        Some(high) => Some(Service::from_nanos(times(high)?)),
        None => None,
    };
    let before_last = times(spec.wcet - spec.last_segment)?;
    let spec = TaskSpec {
        wcet: Service::from_nanos(wcet),
        wcet_high,
        quantum: Service::from_nanos(quantum),
        // ⌈a + b⌉ − ⌈a⌉ ≤ ⌈b⌉: at most the scaled quantum.
        last_segment: Service::from_nanos(wcet - before_last),
        ..spec
    };
    Task::new(spec).ok()
}

/// Returns the same tasks made preemptible anywhere, as if yield points cost nothing.
pub fn preemptible_anywhere(contract: &Contract) -> Contract {
    let tasks = contract.tasks.iter().filter_map(|task| {
        let (quantum, last_segment) = (Service::ZERO, Service::ZERO);
        // Always valid: both are bounded only from above.
        Task::new(TaskSpec { quantum, last_segment, ..task.spec().clone() }).ok()
    });
    Contract { tasks: tasks.collect(), ..contract.clone() }
}

/// Returns the critical scaling factor of `contract` by `test` on `host`. Each trial may take
/// `steps_a_trial`; there are at most 65 trials.
///
/// The sufficient tests are for one CPU: with more, they admit no factor.
pub fn breakdown(
    contract: &Contract,
    host: &HostProfile,
    test: Test,
    steps_a_trial: u64,
) -> Result<Breakdown, NeverAdmitted> {
    let trial = |factor| -> Result<(), String> {
        let scaled = scaled(contract, factor)
            .ok_or_else(|| String::from("a wcet would be longer than its deadline"))?;
        admits(&scaled, host, test, steps_a_trial)
    };
    trial(Factor::LEAST).map_err(|why| NeverAdmitted { why })?;
    // `low` is admitted; `high` is not.
    let (mut low, mut high) = (Factor::LEAST.0, largest_valid(contract).saturating_add(1));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match trial(Factor(middle)) {
            Ok(()) => low = middle,
            Err(_) => high = middle,
        }
    }
    let factor = Factor(low);
    // The factor was admitted, so the scaled contract is valid.
    let tasks = scaled(contract, factor).map(|scaled| scaled.tasks).unwrap_or_default();
    let load = CpuLoad::new(&tasks, [], Service::ZERO);
    Ok(Breakdown { factor, utilisation: load.utilisation().above() })
}

/// Returns the largest factor with which every wcet fits in its deadline.
fn largest_valid(contract: &Contract) -> u64 {
    let of_task = |task: &Task| {
        let deadline = u128::from(task.relative_deadline().as_nanos());
        let most_work = task.wcet_high().unwrap_or(task.wcet());
        let most = deadline * u128::from(Factor::ONE.0) / u128::from(most_work.as_nanos());
        u64::try_from(most).unwrap_or(u64::MAX)
    };
    contract.tasks.iter().map(of_task).min().unwrap_or(Factor::ONE.0)
}

fn admits(
    contract: &Contract,
    host: &HostProfile,
    test: Test,
    steps_a_trial: u64,
) -> Result<(), String> {
    let Some(sufficient) = test.sufficient() else {
        return if fits(contract, host, &mut Steps::new(steps_a_trial)) {
            Ok(())
        } else {
            Err("the contract does not fit with next to no work either".into())
        };
    };
    if contract.cpus > 1 {
        return Err("it is for one CPU, and the contract asks for more".into());
    }
    let Some(load) = load_of_first_cpu(contract, host) else {
        return Err("a stream cannot be mapped".into());
    };
    let finding = sufficient(&load);
    if finding.admits { Ok(()) } else { Err(finding.why) }
}

/// The result of admission for a scaled contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaled {
    /// Whether the contract is admitted.
    pub admitted: bool,
    /// A bound on each task's response time in file order; `None` where none was proven.
    pub bounds: Vec<Option<Duration>>,
}

/// Returns the bounds of `contract` with all work multiplied by `factor`, within `steps`. Nothing
/// is proven if a wcet would be longer than its deadline.
pub fn bounds_at(contract: &Contract, host: &HostProfile, factor: Factor, steps: u64) -> Scaled {
    let Some(scaled) = scaled(contract, factor) else {
        return Scaled { admitted: false, bounds: alloc::vec![None; contract.tasks.len()] };
    };
    let examination = examine(&scaled, host, &mut Steps::new(steps), steps / 4);
    Scaled { admitted: examination.failure.is_none(), bounds: examination.bounds }
}

#[cfg(test)]
mod tests;
