//! Whether a sender keeps its word: each PDU is policed when it comes (L4ATM, §2.5 and §3.2).
//!
//! - [`Gcra`]: one rate and a tolerance, as ATM networks police it.
//! - [`IntervalCredits`]: so many bytes in each interval, as L4ATM polices.
//! - [`UncertainArrivals`]: any of them, where only is known between which instants a PDU came.
//!
//! A policer is told the time and a PDU, in the order in which they come; the time never goes back.
//! What does not conform leaves no trace: it is not charged, and the answer says from when on the
//! same PDU would conform, if no other comes before.
//!
//! Rates are exact: a PDU's time at most rates is no whole number of nanoseconds, so policers count
//! in fractions of one that make it whole ([`Gcra`] says how). Nothing drifts.

mod bucket;
mod credits;
mod gcra;
mod scale;
#[cfg(test)]
mod tests;
mod uncertain;

use punctual_model::Instant;
use thiserror::Error;

pub use credits::IntervalCredits;
pub use gcra::{Charge, Gcra};
pub use punctual_model::channel::Sensitivity;
pub use uncertain::{UncertainArrivals, UncertainVerdict};

/// Judges the PDUs of one sender.
pub trait Policer {
    /// A PDU of `bytes` came at `now`; charged if it conforms.
    fn police(&mut self, now: Instant, bytes: u32) -> Verdict;
}

/// What a policer says of a PDU.
#[must_use = "a PDU that does not conform must not pass as if it did"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The sender kept its word; the PDU is charged.
    Conforming,
    /// It did not; nothing is charged.
    NonConforming(Breach),
}

/// How a PDU breaks the sender's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Breach {
    /// It came before its time.
    #[error("the PDU came too early: it conforms at {conforms_at}; send it then, or declare more")]
    TooEarly {
        /// The first instant at which it conforms; [`Instant::MAX`]: beyond the end of time.
        conforms_at: Instant,
    },
    /// It is larger than any that was declared: no time makes it conform.
    #[error("the PDU has {bytes} bytes, and max_sdu is {max_sdu}; cut it, or declare a larger one")]
    TooLarge {
        /// Its bytes.
        bytes: u32,
        /// The most bytes declared.
        max_sdu: u32,
    },
}
