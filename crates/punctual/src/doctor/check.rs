//! One thing looked at.

use serde::Serialize;

/// What a check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Tried or read, and as it should be.
    Ok,
    /// Works, but promises will be weaker than they could be.
    Warning,
    /// Does not work.
    Cannot,
    /// Could not be looked at.
    Unknown,
}

impl State {
    /// Returns the word in the table and in the JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Cannot => "cannot",
            Self::Unknown => "unknown",
        }
    }
}

/// One thing looked at, what was found, and what to do about it.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// What the check came to.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What to do about it; none if it is as it should be.
    pub remedy: Option<String>,
}

impl Check {
    pub(super) fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: State::Ok, found: found.into(), remedy: None }
    }

    pub(super) fn warning(
        name: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::with(name, State::Warning, found, remedy)
    }

    pub(super) fn cannot(
        name: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::with(name, State::Cannot, found, remedy)
    }

    pub(super) fn unknown(
        name: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::with(name, State::Unknown, found, remedy)
    }

    fn with(
        name: &'static str,
        state: State,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { name, state, found: found.into(), remedy: Some(remedy.into()) }
    }
}
