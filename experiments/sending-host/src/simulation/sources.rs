//! What is sent without a promise, and what else uses the processor.

use punctual_model::{Duration, Instant, Service};

/// A best-effort sender with a handler of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The size of its messages, at least 1.
    pub bytes: u32,
    /// When the first comes.
    pub first: Instant,
    /// After the last packet of one is made, until the next comes.
    pub pause: Duration,
    /// A message comes only if so many packets, its own included, have not left: at least as
    /// many as a message has.
    pub room: u32,
}

/// What runs before everything of the sender: `work` in every `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hog {
    /// Its processor time at a time.
    pub work: Service,
    /// From one to the next, not zero.
    pub period: Duration,
    /// When.
    pub pattern: HogPattern,
}

/// When a hog wants the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HogPattern {
    /// At `first`, then every period; but what would come before `first + late` comes then. With
    /// `late = period − work`, a budget used as late as possible and then as early as possible.
    Periodic {
        /// Where the periods begin.
        first: Instant,
        /// How late the first ones are.
        late: Duration,
    },
    /// Whenever a packet goes on the link and the last time is at least a period ago: so that the
    /// link becomes free while nobody can serve it.
    AtStarts,
}
