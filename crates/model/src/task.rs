//! Periodic and sporadic tasks, the subject of the schedulability tests.

use alloc::string::String;

use thiserror::Error;

use crate::time::{Duration, Instant, Service};
use crate::units;
use crate::upcall::Upcall;

/// A job: the `index`-th release (from 0) of the task at position `task` in its system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    /// The position of the task in its contract.
    pub task: u32,
    /// The number of the release, from 0.
    pub index: u64,
}

/// The jobs of one task that were released and are not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The oldest of them.
    pub oldest: JobId,
    /// The release of the oldest; the others follow at each `period`.
    pub release: Instant,
    /// The time between two releases.
    pub period: Duration,
    /// The number of jobs.
    pub jobs: u64,
    /// True if the oldest has begun to run.
    pub begun: bool,
}

/// A task as it was declared, with any numbers. [`Task::new`] validates it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// The task's name.
    pub name: String,
    /// The least time between two releases (the period of a periodic task).
    pub min_inter_arrival: Duration,
    /// The time from a release to its absolute deadline.
    pub relative_deadline: Duration,
    /// The longest time from a release's nominal instant until the scheduler knows of it. Deadlines
    /// and response times count from the nominal instant.
    pub release_jitter: Duration,
    /// The most processor time that a job is assumed to need.
    pub wcet: Service,
    /// The certified wcet of a task of high criticality, for which `wcet` is only an estimate;
    /// `None`: the task is of low criticality. Used under [`Policy::EdfVd`](crate::Policy::EdfVd).
    pub wcet_high: Option<Service>,
    /// The longest stretch that runs without a yield point; zero: preemptible anywhere.
    pub quantum: Service,
    /// The length of the stretch without a yield point that ends every job, however short the job;
    /// zero: not known. The part before it takes at most the rest of the wcet.
    pub last_segment: Service,
}

impl TaskSpec {
    /// Makes a periodic task without jitter, preemptible anywhere, with its deadline at the end of
    /// the period.
    pub fn periodic(name: &str, period: Duration, wcet: Service) -> Self {
        Self {
            name: String::from(name),
            min_inter_arrival: period,
            relative_deadline: period,
            release_jitter: Duration::ZERO,
            wcet,
            wcet_high: None,
            quantum: Service::ZERO,
            last_segment: Service::ZERO,
        }
    }

    /// Makes the task non-preemptive: a job that has begun runs to its end.
    pub fn non_preemptive(self) -> Self {
        Self { quantum: self.wcet, last_segment: self.wcet, ..self }
    }
}

/// A valid sporadic (or periodic) task.
///
/// Guaranteed: `0 < min_inter_arrival`, `0 < wcet`, `last_segment ≤ quantum ≤ wcet`,
/// `release_jitter < relative_deadline`, and `wcet ≤ wcet_high ≤ relative_deadline`. The deadline
/// may exceed the period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task(TaskSpec);

/// The rule that a [`TaskSpec`] breaks, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TaskError {
    /// The period is zero, which means infinitely many jobs.
    #[error("the period is zero; it must be at least 1ns")]
    ZeroPeriod,
    /// The wcet is zero.
    #[error("the wcet is zero; it must be at least 1ns")]
    ZeroWcet,
    /// The wcet exceeds the deadline: no job can finish in time even alone.
    #[error(
        "the wcet {wcet} does not fit in the relative deadline {relative_deadline}; no job could be in \
         time even alone: give more time, or ask for less work"
    )]
    WcetAboveDeadline {
        /// The wcet given.
        wcet: Service,
        /// The deadline given.
        relative_deadline: Duration,
    },
    /// The certified wcet is below the estimate or exceeds the deadline.
    #[error(
        "the wcet_high {wcet_high} is not from the wcet {wcet} to the relative deadline {relative_deadline}"
    )]
    WcetHighOutOfRange {
        /// The certified wcet given.
        wcet_high: Service,
        /// The wcet given.
        wcet: Service,
        /// The deadline given.
        relative_deadline: Duration,
    },
    /// The quantum is longer than the whole job.
    #[error("the quantum {quantum} is longer than the whole job, whose wcet is {wcet}")]
    QuantumAboveWcet {
        /// The quantum given.
        quantum: Service,
        /// The wcet given.
        wcet: Service,
    },
    /// The last segment, itself a stretch without a yield point, is longer than the quantum.
    #[error(
        "the last segment {last_segment} is longer than the quantum {quantum}, the longest stretch \
         without a yield point"
    )]
    LastSegmentAboveQuantum {
        /// The last segment given.
        last_segment: Service,
        /// The quantum given.
        quantum: Service,
    },
    /// The jitter reaches the deadline.
    #[error(
        "the release jitter {release_jitter} reaches the relative deadline {relative_deadline}; \
         it must be shorter"
    )]
    JitterReachesDeadline {
        /// The jitter given.
        release_jitter: Duration,
        /// The deadline given.
        relative_deadline: Duration,
    },
}

impl Task {
    /// Validates `spec`.
    pub fn new(spec: TaskSpec) -> Result<Self, TaskError> {
        let TaskSpec {
            min_inter_arrival,
            relative_deadline,
            release_jitter,
            wcet,
            wcet_high,
            quantum,
            last_segment,
            ..
        } = spec;
        if min_inter_arrival.is_zero() {
            return Err(TaskError::ZeroPeriod);
        }
        if wcet.is_zero() {
            return Err(TaskError::ZeroWcet);
        }
        if wcet.at_full_speed() > relative_deadline {
            return Err(TaskError::WcetAboveDeadline { wcet, relative_deadline });
        }
        if let Some(high) = wcet_high
            && (high < wcet || high.at_full_speed() > relative_deadline)
        {
            return Err(TaskError::WcetHighOutOfRange { wcet_high: high, wcet, relative_deadline });
        }
        if quantum > wcet {
            return Err(TaskError::QuantumAboveWcet { quantum, wcet });
        }
        if last_segment > quantum {
            return Err(TaskError::LastSegmentAboveQuantum { last_segment, quantum });
        }
        if release_jitter >= relative_deadline {
            return Err(TaskError::JitterReachesDeadline { release_jitter, relative_deadline });
        }
        Ok(Self(spec))
    }

    /// Returns the task's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the least time between two releases.
    pub fn min_inter_arrival(&self) -> Duration {
        self.0.min_inter_arrival
    }

    /// Returns the time from the nominal release to the deadline.
    pub fn relative_deadline(&self) -> Duration {
        self.0.relative_deadline
    }

    /// Returns the longest time until the scheduler knows of a release.
    pub fn release_jitter(&self) -> Duration {
        self.0.release_jitter
    }

    /// Returns the most processor time that a job is assumed to need.
    pub fn wcet(&self) -> Service {
        self.0.wcet
    }

    /// Returns the task's utilisation of a CPU in parts per million, rounded up, for comparison
    /// with a bound.
    pub fn utilisation_ppm(&self) -> u64 {
        units::share_ppm(self.0.wcet, self.0.min_inter_arrival)
    }

    /// Returns the certified wcet; `None`: the task is of low criticality.
    pub fn wcet_high(&self) -> Option<Service> {
        self.0.wcet_high
    }

    /// Returns the longest stretch without a yield point; zero: preemptible anywhere.
    pub fn quantum(&self) -> Service {
        self.0.quantum
    }

    /// Returns the stretch without a yield point at the end of every job; zero: not known.
    pub fn last_segment(&self) -> Service {
        self.0.last_segment
    }

    /// Returns true if a job that has begun runs to its end without preemption.
    pub fn is_non_preemptive(&self) -> bool {
        self.0.last_segment == self.0.wcet
    }

    /// Returns the numbers, for a caller that varies them.
    pub fn spec(&self) -> &TaskSpec {
        &self.0
    }

    /// Returns `wcet / min_inter_arrival`, for printing and for the utilisation tests.
    pub fn utilisation(&self) -> f64 {
        self.0.wcet.as_nanos() as f64 / self.0.min_inter_arrival.as_nanos() as f64
    }
}

/// Converts an upcall to a task whose deadline is its period (real-time upcalls, §5.1): the wcet is
/// the time of a whole batch, the quantum the time of the PDUs between two yield points.
impl From<&Upcall> for Task {
    fn from(upcall: &Upcall) -> Self {
        Self(TaskSpec {
            quantum: upcall.quantum_service(),
            ..TaskSpec::periodic(upcall.name(), upcall.period(), upcall.batch_service())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> TaskSpec {
        TaskSpec::periodic("video", Duration::from_millis(40), Service::from_millis(3))
    }

    #[test]
    fn each_rule_is_held() {
        assert!(Task::new(spec()).is_ok());
        let broken = [
            (TaskSpec { min_inter_arrival: Duration::ZERO, ..spec() }, TaskError::ZeroPeriod),
            (TaskSpec { wcet: Service::ZERO, ..spec() }, TaskError::ZeroWcet),
        ];
        for (spec, why) in broken {
            assert_eq!(Task::new(spec), Err(why));
        }
        assert!(matches!(
            Task::new(TaskSpec { relative_deadline: Duration::from_millis(2), ..spec() }),
            Err(TaskError::WcetAboveDeadline { .. })
        ));
        assert!(matches!(
            Task::new(TaskSpec { quantum: Service::from_millis(4), ..spec() }),
            Err(TaskError::QuantumAboveWcet { .. })
        ));
        assert!(matches!(
            Task::new(TaskSpec { last_segment: Service::from_millis(1), ..spec() }),
            Err(TaskError::LastSegmentAboveQuantum { .. })
        ));
        for (high, valid) in [(2, false), (3, true), (40, true), (41, false)] {
            let spec = TaskSpec { wcet_high: Some(Service::from_millis(high)), ..spec() };
            let checked = Task::new(spec);
            assert_eq!(checked.is_ok(), valid, "{checked:?}");
        }
        assert!(Task::new(spec().non_preemptive()).is_ok_and(|task| task.is_non_preemptive()));
        assert!(matches!(
            Task::new(TaskSpec { release_jitter: Duration::from_millis(40), ..spec() }),
            Err(TaskError::JitterReachesDeadline { .. })
        ));
    }
}
