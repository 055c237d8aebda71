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
    /// Judges a PDU of `bytes` that came at `now`, and charges it if it conforms.
    fn police(&mut self, now: Instant, bytes: u32) -> Verdict;
}

/// A policer's verdict on a PDU.
#[must_use = "a PDU that does not conform must not pass as if it did"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The PDU conforms and is charged.
    Conforming,
    /// The PDU does not conform; nothing is charged.
    NonConforming(Breach),
}

/// The way in which a PDU breaks its contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Breach {
    /// The PDU came too early.
    #[error("the PDU came too early: it conforms at {conforms_at}; send it then, or declare more")]
    TooEarly {
        /// The first instant at which it conforms; [`Instant::MAX`]: beyond the end of time.
        conforms_at: Instant,
    },
    /// The PDU is larger than declared, so no time makes it conform.
    #[error("the PDU has {bytes} bytes, and max_sdu is {max_sdu}; cut it, or declare a larger one")]
    TooLarge {
        /// The size of the PDU in bytes.
        bytes: u32,
        /// The largest size declared.
        max_sdu: u32,
    },
}
