//! Periodic and sporadic tasks: what the schedulability tests are about.

use alloc::string::String;

use thiserror::Error;

use crate::time::{Duration, Instant, Service};
use crate::units;
use crate::upcall::Upcall;

/// A job: the `index`-th release (from 0) of the task at position `task` in its system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    /// Position of the task in its contract.
    pub task: u32,
    /// Which of its releases.
    pub index: u64,
}

/// Jobs of one task that were released and are not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The oldest of them.
    pub oldest: JobId,
    /// Its release; those of the others follow at each `period`.
    pub release: Instant,
    /// The time between two of them.
    pub period: Duration,
    /// How many they are.
    pub jobs: u64,
    /// Whether the oldest has begun to run.
    pub begun: bool,
}

/// A task as somebody wrote it down: any numbers at all. [`Task::new`] makes it valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// What people call it.
    pub name: String,
    /// The least time between two releases (the period, if it is periodic).
    pub min_inter_arrival: Duration,
    /// From release to the instant by which the job must be complete.
    pub relative_deadline: Duration,
    /// How much later than its nominal instant a release may become known to the scheduler.
    /// Deadlines and response times are counted from the nominal instant.
    pub release_jitter: Duration,
    /// The most processor time a job is assumed to need.
    pub wcet: Service,
    /// What a job of a task of high criticality needs at most for certain, where `wcet` is only believed; `None`:
    /// the task is of low criticality. It counts under [`Policy::EdfVd`](crate::Policy::EdfVd).
    pub wcet_high: Option<Service>,
    /// The longest stretch that runs without a yield point; zero: preemptible anywhere.
    pub quantum: Service,
    /// The stretch without a yield point at the end of every job, however little the job needs;
    /// zero: none is known. What comes before it takes at most the rest of the wcet.
    pub last_segment: Service,
}

impl TaskSpec {
    /// A periodic task with its deadline at the end of the period, no jitter, preemptible anywhere.
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

    /// The same, but a job that has begun gives way to no other task.
    pub fn non_preemptive(self) -> Self {
        Self { quantum: self.wcet, last_segment: self.wcet, ..self }
    }
}

/// A valid sporadic (or periodic) task.
///
/// Guaranteed: `0 < min_inter_arrival`, `0 < wcet`, `last_segment ≤ quantum ≤ wcet`,
/// `release_jitter < relative_deadline`, and `wcet ≤ wcet_high ≤ relative_deadline`. The deadline may lie
/// beyond the period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task(TaskSpec);

/// Which rule a [`TaskSpec`] breaks, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TaskError {
    /// A period of zero asks for infinitely many jobs.
    #[error("the period is zero; it must be at least 1ns")]
    ZeroPeriod,
    /// A job that does nothing promises nothing.
    #[error("the wcet is zero; it must be at least 1ns")]
    ZeroWcet,
    /// No job can finish in time even alone.
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
    /// What is certain is no less than what is believed, and fits in the deadline.
    #[error(
        "the wcet_high {wcet_high} is not from the wcet {wcet} to the relative deadline {relative_deadline}"
    )]
    WcetHighOutOfRange {
        /// The certain wcet given.
        wcet_high: Service,
        /// The wcet given.
        wcet: Service,
        /// The deadline given.
        relative_deadline: Duration,
    },
    /// A stretch without a yield point cannot be longer than the whole job.
    #[error("the quantum {quantum} is longer than the whole job, whose wcet is {wcet}")]
    QuantumAboveWcet {
        /// The quantum given.
        quantum: Service,
        /// The wcet given.
        wcet: Service,
    },
    /// The last segment is itself a stretch without a yield point.
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
    /// The release may become known only after the deadline.
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
    /// Checks `spec`.
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

    /// What people call it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The least time between two releases.
    pub fn min_inter_arrival(&self) -> Duration {
        self.0.min_inter_arrival
    }

    /// From the nominal release to the deadline.
    pub fn relative_deadline(&self) -> Duration {
        self.0.relative_deadline
    }

    /// How late a release may become known.
    pub fn release_jitter(&self) -> Duration {
        self.0.release_jitter
    }

    /// The most processor time a job is assumed to need.
    pub fn wcet(&self) -> Service {
        self.0.wcet
    }

    /// Returns what it needs of a CPU, in parts per million, rounded up: what to hold against a bound.
    pub fn utilisation_ppm(&self) -> u64 {
        units::share_ppm(self.0.wcet, self.0.min_inter_arrival)
    }

    /// Returns what a job may need for certain; `None`: the task is of low criticality.
    pub fn wcet_high(&self) -> Option<Service> {
        self.0.wcet_high
    }

    /// The longest stretch without a yield point; zero: preemptible anywhere.
    pub fn quantum(&self) -> Service {
        self.0.quantum
    }

    /// The stretch without a yield point at the end of every job; zero: none is known.
    pub fn last_segment(&self) -> Service {
        self.0.last_segment
    }

    /// Whether a job that has begun gives way to no other task.
    pub fn is_non_preemptive(&self) -> bool {
        self.0.last_segment == self.0.wcet
    }

    /// The numbers back, to vary them.
    pub fn spec(&self) -> &TaskSpec {
        &self.0
    }

    /// `wcet / min_inter_arrival`, for printing and for the utilisation tests.
    pub fn utilisation(&self) -> f64 {
        self.0.wcet.as_nanos() as f64 / self.0.min_inter_arrival.as_nanos() as f64
    }
}

/// An upcall is a task whose deadline is its period (real-time upcalls, §5.1): its wcet is the
/// time of a whole batch, its quantum the time of the PDUs between two yield points.
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
