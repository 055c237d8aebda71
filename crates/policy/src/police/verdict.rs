//! The trait of policers, and their verdict on a PDU.

use punctual_model::Instant;
use thiserror::Error;

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
