//! What does a thread need, seen from outside? From its wake-ups and execution times to a period, a
//! demand, and a reservation.
//!
//! - `sampler`: from the kernel's records to the jobs of each thread.
//! - `train`: follows one supposed period through the wake-ups.
//! - `period`: which period, how sure, or why none.
//! - `demand`: the processor time of each period.
//! - `proposal`: the reservation that covers it.
//!
//! The idea of taking the period from the instants at which a program calls the kernel, and the budget
//! from a quantile of what it used in each period, is Cucinotta, Checconi, Abeni and Palopoli's
//! (*Self-tuning schedulers for legacy real-time applications*, EuroSys 2010, §4). They look for it in the
//! spectrum of the instants; here the instants are followed one by one, so that missed ones, bursts and
//! a timeline that drifts can be told apart.

mod demand;
mod period;
mod proposal;
mod sampler;
#[cfg(test)]
mod tests;
mod train;

pub use demand::Demand;
pub use period::{Found, NotPeriodic, Period, SURE, find};
pub use proposal::{LEAST_MARGIN, Margin, Proposal, propose};
pub use sampler::{Sampler, Samples};

use punctual_model::{Duration, Instant, Service};

/// A job of a thread, as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When the timer that woke the thread was due, or else when it was woken.
    pub release: Instant,
    /// When the thread slept again.
    pub end: Instant,
    /// What it executed in between, as the scheduler accounts it.
    pub exec_time: Service,
}

impl Sample {
    /// From the release to the end.
    pub fn response_time(&self) -> Duration {
        self.end.saturating_since(self.release)
    }
}
