//! How far the work of a contract can grow before it is no longer admitted.
//!
//! Every wcet is multiplied by one factor until a test refuses: the *critical scaling factor*
//! after Lehoczky, Sha & Ding, RTSS 1989, who call the utilisation there the *breakdown
//! utilisation*. Above one it is the room that is left, below one what must be saved.
//!
//! # What is scaled
//! The wcet, the quantum and the last segment of every task, upcalls among them. Not scaled are
//! switches, reservations, channels and streams. All three are rounded up, with the work before the
//! last segment in the wcet's place for the last: so no amount of work ever shrinks as the factor
//! grows, and `last_segment ≤ quantum ≤ wcet` is kept.
//!
//! # Why bisection
//! On one CPU a test that refuses some work refuses more of it too. On several CPUs more work may
//! change who runs where, so there the factor is one that is admitted and next to one that is not.
//! What is answered was itself tested; "undecided" counts as refused.
//!
//! # Units
//! Factors in millionths, exact; times in nanoseconds.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use punctual_model::{Contract, Duration, HostProfile, Policy, Service, Task, TaskSpec};
use thiserror::Error;

use crate::edf;
use crate::examination::{examine, fits, load_of_first_cpu};
use crate::load::CpuLoad;
use crate::policies;
use crate::ratio::Ratio;
use crate::steps::Steps;
use crate::utilisation::{self, Finding};

/// A positive factor in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Factor(u64);

impl Factor {
    /// As declared.
    pub const ONE: Self = Self(1_000_000);

    /// The least there is.
    const LEAST: Self = Self(1);

    /// So many millionths; `None` for zero.
    pub fn from_millionths(millionths: u64) -> Option<Self> {
        (millionths > 0).then_some(Self(millionths))
    }

    /// In millionths.
    pub fn millionths(self) -> u64 {
        self.0
    }

    /// `work · self`, rounded up; `None` beyond 64 bits.
    fn times(self, work: u64) -> Option<u64> {
        let area = u128::from(work) * u128::from(self.0);
        u64::try_from(area.div_ceil(u128::from(Self::ONE.0))).ok()
    }
}

/// Exact: `1.25`, `0.000001`, `2`.
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
    /// The one that decides under the policy: what [`crate::admit()`] answers.
    Exact,
}

impl Test {
    /// The tests that admission reports under `policy`, the one that decides last.
    pub fn of(policy: Policy) -> &'static [Self] {
        policies::of(policy).tests()
    }

    /// What people call it.
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

/// Where a contract breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breakdown {
    /// The critical scaling factor: admitted, and a millionth more is not.
    pub factor: Factor,
    /// What the tasks take of one CPU there, rounded up; without switches and reservations.
    pub utilisation: Ratio,
}

/// The test refuses even next to no work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("admits no factor: {why}")]
pub struct NeverAdmitted {
    /// What the test says of the least factor.
    pub why: String,
}

/// The tasks of `contract` with all work multiplied by `factor`; `None` where a wcet would be
/// longer than its deadline.
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

/// The same tasks, preemptible anywhere: what remains without the price of yield points.
pub fn preemptible_anywhere(contract: &Contract) -> Contract {
    let tasks = contract.tasks.iter().filter_map(|task| {
        let (quantum, last_segment) = (Service::ZERO, Service::ZERO);
        // Always valid: both are only bounded from above.
        Task::new(TaskSpec { quantum, last_segment, ..task.spec().clone() }).ok()
    });
    Contract { tasks: tasks.collect(), ..contract.clone() }
}

/// The critical scaling factor of `contract` by `test`, on `host`. Each trial may take
/// `steps_a_trial`, and there are at most 65.
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
    // Admitted with `low`; not with `high`.
    let (mut low, mut high) = (Factor::LEAST.0, largest_valid(contract).saturating_add(1));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match trial(Factor(middle)) {
            Ok(()) => low = middle,
            Err(_) => high = middle,
        }
    }
    let factor = Factor(low);
    // It was admitted, so it is valid.
    let tasks = scaled(contract, factor).map(|scaled| scaled.tasks).unwrap_or_default();
    let load = CpuLoad::new(&tasks, [], Service::ZERO);
    Ok(Breakdown { factor, utilisation: load.utilisation().above() })
}

/// The largest factor with which every wcet fits in its deadline.
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

/// What admission proves of a scaled contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaled {
    /// Whether it admits.
    pub admitted: bool,
    /// A bound on the response time of each task in file order; `None`: none was proven.
    pub bounds: Vec<Option<Duration>>,
}

/// The bounds of `contract` with all work multiplied by `factor`, within `steps`. Nothing is proven
/// where a wcet would be longer than its deadline.
pub fn bounds_at(contract: &Contract, host: &HostProfile, factor: Factor, steps: u64) -> Scaled {
    let Some(scaled) = scaled(contract, factor) else {
        return Scaled { admitted: false, bounds: alloc::vec![None; contract.tasks.len()] };
    };
    let examination = examine(&scaled, host, &mut Steps::new(steps), steps / 4);
    Scaled { admitted: examination.failure.is_none(), bounds: examination.bounds }
}

#[cfg(test)]
mod tests;
