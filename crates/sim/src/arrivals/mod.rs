//! Defines arrival patterns: when each job is released and how long it runs.
//!
//! | pattern | arrivals |
//! |---|---|
//! | [`Periodic`] | from given phases on, as densely as allowed |
//! | [`Drawn`] | at random: gaps, jitter and execution times are drawn |
//! | [`Bursty`] | piled up by the jitter, then dense, then a pause |
//! | [`Adversarial`] | all at once, 1 ns after the longest quantum of a chosen task began |
//! | [`Listed`] | from a list, as in a witness |
//!
//! All but the last stay within the contract. Jobs run for their wcet, except in [`Drawn`], in a
//! list, and under [`DrawnTimes`] and [`HighTimes`], which wrap any other pattern.

mod adversarial;
mod exec_times;
mod patterns;

use alloc::boxed::Box;

use punctual_model::{Instant, Service};

pub use adversarial::{Adversarial, Aligned, Attack};
pub use exec_times::{DrawnTimes, HighTimes};
pub use patterns::Bursty;
pub use patterns::Drawn;
pub use patterns::Periodic;
pub use patterns::{Listed, Recorded};

/// A future job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The nominal release, from which the deadline counts.
    pub release: Instant,
    /// The instant at which the scheduler learns of it, up to the release jitter later.
    pub known: Instant,
    /// The execution time, more than zero. A job that runs for less than its wcet still ends with
    /// its task's last segment, cut to the job.
    pub exec_time: Service,
}

impl Arrival {
    /// The arrival that stands for the end of the arrivals.
    pub(crate) const NEVER: Self =
        Self { release: Instant::MAX, known: Instant::MAX, exec_time: Service::ZERO };
}

/// A source of each task's jobs, in the order of their releases.
pub trait Arrivals {
    /// Returns the next job of `task`. It is never known before the previous one.
    fn next(&mut self, task: u32) -> Arrival;
}

impl<A: Arrivals + ?Sized> Arrivals for &mut A {
    fn next(&mut self, task: u32) -> Arrival {
        (**self).next(task)
    }
}

impl<A: Arrivals + ?Sized> Arrivals for Box<A> {
    fn next(&mut self, task: u32) -> Arrival {
        (**self).next(task)
    }
}

/// A task's timeline of releases, never denser than the contract allows.
#[derive(Clone, Debug)]
struct Timeline {
    next: Instant,
    last_known: Instant,
}

#[cfg(test)]
mod tests;
