//! Counts the time constraints that a subject requested.

use punctual_model::{Duration, Service};
use punctual_trace::constraint::{Answer, ConstraintRequest};

/// The requests of a subject and their answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Constraints {
    pub(crate) granted: u64,
    pub(crate) refused: u64,
    /// The largest estimate of all requests.
    pub(crate) largest_estimate: Service,
    /// The shortest time from start to deadline.
    pub(crate) shortest: Option<Duration>,
}

impl Constraints {
    pub(crate) fn asked(&mut self, asked: &ConstraintRequest) {
        match asked.answer {
            Answer::Granted => self.granted += 1,
            Answer::Refused { .. } => self.refused += 1,
        }
        self.largest_estimate = self.largest_estimate.max(asked.estimate);
        let within = asked.deadline.saturating_since(asked.start);
        self.shortest = Some(self.shortest.map_or(within, |shortest| shortest.min(within)));
    }

    /// Returns the number of requests.
    pub(crate) fn all(&self) -> u64 {
        self.granted.saturating_add(self.refused)
    }
}
