//! Policing: each PDU of a sender is checked against its contract on arrival (L4ATM, §2.5 and
//! §3.2).
//!
//! - [`Gcra`]: one rate and a tolerance, as ATM networks police.
//! - [`IntervalCredits`]: an amount of bytes in each interval, as L4ATM polices.
//! - [`UncertainArrivals`]: either of them, if only an interval of a PDU's arrival is known.
//!
//! The caller passes the time and a PDU, in the order of arrivals; the time must not decrease. A
//! nonconforming PDU does not change the state: it is not charged, and the verdict says from when
//! on the same PDU would conform, if no other comes before.
//!
//! Rates are exact: at most rates a PDU's time is not a whole number of nanoseconds, so policers
//! count in fractions of one that make it whole ([`Gcra`] explains them). Nothing drifts.

mod bucket;
mod credits;
mod gcra;
#[cfg(test)]
mod tests;
mod verdict;

pub use credits::IntervalCredits;
pub use gcra::{Charge, Gcra, UncertainArrivals, UncertainVerdict};
pub use punctual_model::channel::Sensitivity;
pub use verdict::{Breach, Policer, Verdict};
