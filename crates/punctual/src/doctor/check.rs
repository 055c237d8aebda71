//! The result of one check.

use serde::Serialize;

use crate::Message;

/// The state that a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It was tried or read, and is as it should be.
    Ok,
    /// It works, but promises will be weaker than they could be.
    Warning,
    /// It does not work.
    Cannot,
    /// It could not be examined.
    Unknown,
}

impl State {
    /// Returns the word for the table and the JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Cannot => "cannot",
            Self::Unknown => "unknown",
        }
    }
}

/// A check, with its result and the remedy.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The subject of the check.
    pub name: &'static str,
    /// The state.
    pub state: State,
    /// The finding, in words.
    pub found: String,
    /// The remedy; `None` if all is as it should be.
    pub remedy: Option<Message>,
}

impl Check {
    pub(super) fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: State::Ok, found: found.into(), remedy: None }
    }

    pub(super) fn warning(
        name: &'static str,
        found: impl Into<String>,
        remedy: impl Into<Message>,
    ) -> Self {
        Self::with(name, State::Warning, found, remedy)
    }

    pub(super) fn cannot(
        name: &'static str,
        found: impl Into<String>,
        remedy: impl Into<Message>,
    ) -> Self {
        Self::with(name, State::Cannot, found, remedy)
    }

    pub(super) fn unknown(
        name: &'static str,
        found: impl Into<String>,
        remedy: impl Into<Message>,
    ) -> Self {
        Self::with(name, State::Unknown, found, remedy)
    }

    fn with(
        name: &'static str,
        state: State,
        found: impl Into<String>,
        remedy: impl Into<Message>,
    ) -> Self {
        Self { name, state, found: found.into(), remedy: Some(remedy.into()) }
    }
}
