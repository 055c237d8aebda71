//! The time constraints that a subject asked for.

use punctual_model::{Duration, Service};
use punctual_trace::constraint::{Answer, Asked};

/// What was asked for, and what was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Constraints {
    pub(crate) granted: u64,
    pub(crate) refused: u64,
    /// The largest estimate of all.
    pub(crate) largest_estimate: Service,
    /// The shortest time from start to deadline.
    pub(crate) shortest: Option<Duration>,
}

impl Constraints {
    pub(crate) fn asked(&mut self, asked: &Asked) {
        match asked.answer {
            Answer::Granted => self.granted += 1,
            Answer::Refused { .. } => self.refused += 1,
        }
        self.largest_estimate = self.largest_estimate.max(asked.estimate);
        let within = asked.deadline.saturating_since(asked.start);
        self.shortest = Some(self.shortest.map_or(within, |shortest| shortest.min(within)));
    }

    /// How many there were.
    pub(crate) fn all(&self) -> u64 {
        self.granted.saturating_add(self.refused)
    }
}
