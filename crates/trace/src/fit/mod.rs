//! Determines what a thread needs, as observed from outside: from its wake-ups and execution times
//! to a period, a demand, and a reservation.
//!
//! - `sampler`: from the kernel's records to the jobs of each thread.
//! - `train`: follows one candidate period through the wake-ups.
//! - `period`: finds the period and its confidence, or why there is none.
//! - `proposal`: the processor time of each period, and the reservation that covers it.
//!
//! The idea of taking the period from the instants at which a program calls the kernel, and the
//! budget from a quantile of its use in each period, is from Cucinotta, Checconi, Abeni and
//! Palopoli (*Self-tuning schedulers for legacy real-time applications*, EuroSys 2010, §4). They
//! look for the period in the spectrum of the instants. Here the instants are followed one by one,
//! so that missed ones, bursts and a drifting timeline can be told apart.

mod period;
mod proposal;
mod sampler;
#[cfg(test)]
mod tests;
mod train;

pub use period::{Found, NotPeriodic, Period, SURE, find};
pub use proposal::{Demand, LEAST_MARGIN, Margin, Proposal, propose};
pub use sampler::{Sample, Sampler, Samples};
