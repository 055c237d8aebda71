//! Why something could not be done.

use std::fmt::Display;

/// Why something could not be done: one or more sentences for a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Bad usage or a bad contract.
    #[error("{0}")]
    BadInput(String),
    /// This host cannot; the sentence says what to do about it.
    #[error("{0}")]
    CannotHere(String),
    /// What was asked for is refused.
    #[error("{0}")]
    Refused(String),
}

impl Failure {
    /// Makes a failure of the first kind from anything that reads as a sentence.
    pub fn bad_input(why: impl Display) -> Self {
        Self::BadInput(why.to_string())
    }

    /// Makes a failure of the second kind from anything that reads as a sentence.
    pub fn cannot_here(why: impl Display) -> Self {
        Self::CannotHere(why.to_string())
    }
}
