//! The errors that several modules of this crate share.

use std::fmt::Display;

use crate::refusal::RefusalRecord;

/// An error that is reported to a person, as one or more sentences.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The usage or the contract is wrong.
    #[error("{0}")]
    BadInput(String),
    /// This host cannot do it. The message says what to do about it.
    #[error("{0}")]
    CannotHere(String),
    /// The request is refused.
    #[error("{0}")]
    Refused(Box<RefusalRecord>),
}

impl Failure {
    /// Makes a [`Failure::BadInput`] from anything that reads as a sentence.
    pub fn bad_input(why: impl Display) -> Self {
        Self::BadInput(why.to_string())
    }

    /// Makes a [`Failure::CannotHere`] from anything that reads as a sentence.
    pub fn cannot_here(why: impl Display) -> Self {
        Self::CannotHere(why.to_string())
    }

    /// Makes a [`Failure::Refused`] from a refusal, or from a sentence alone.
    pub fn refused(why: impl Into<RefusalRecord>) -> Self {
        Self::Refused(Box::new(why.into()))
    }
}

/// The reason why an [export](crate::export) stopped.
#[cfg(feature = "export")]
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The trace cannot be read.
    #[error("{0}")]
    Read(#[from] Failure),
    /// The output cannot be written.
    #[error("cannot be written: {0}")]
    Write(#[from] std::io::Error),
}
