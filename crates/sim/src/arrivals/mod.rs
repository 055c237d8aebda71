//! Arrival patterns: when each job is released and how long it runs.
//!
//! | pattern | when jobs come |
//! |---|---|
//! | [`Periodic`] | from given phases on, as densely as allowed |
//! | [`Drawn`] | anyhow: gaps, jitter and running times drawn |
//! | [`Bursty`] | piled up by the jitter, then dense, then a pause |
//! | [`Adversarial`] | all at once, 1 ns after the longest quantum of a chosen task began |
//! | [`Listed`] | as listed: what a witness is |
//!
//! All but the last stay within the contract. Jobs run for their wcet, except in [`Drawn`], in a
//! list, and under [`DrawnTimes`] and [`HighTimes`], which are put around any of them.

mod adversarial;
mod bursty;
mod drawn;
mod exec_times;
mod listed;
mod periodic;

use alloc::boxed::Box;

use punctual_model::{Instant, Service};

pub use adversarial::{Adversarial, Aligned, Attack};
pub use bursty::Bursty;
pub use drawn::Drawn;
pub use exec_times::{DrawnTimes, HighTimes};
pub use listed::{Listed, Recorded};
pub use periodic::Periodic;

/// One job to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its nominal release, from which its deadline counts.
    pub release: Instant,
    /// When the scheduler learns of it: up to the release jitter later.
    pub known: Instant,
    /// How long it runs: more than zero. A job that runs for less than its wcet still ends with
    /// its task's last segment, cut to the job.
    pub exec_time: Service,
}

impl Arrival {
    /// What comes when nothing more comes.
    pub(crate) const NEVER: Self =
        Self { release: Instant::MAX, known: Instant::MAX, exec_time: Service::ZERO };
}

/// Gives each task's jobs one after the other, in the order of their releases.
pub trait Arrivals {
    /// The next job of `task`. Never known before the one given before it.
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

/// Releases at most as dense as the contract allows.
#[derive(Clone, Debug)]
struct Timeline {
    next: Instant,
    last_known: Instant,
}

#[cfg(test)]
mod tests;
