//! Traffic without a promise, and other work on the processor.

use punctual_model::{Duration, Instant, Service};

/// A best-effort sender with a handler of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The size of its messages, at least 1.
    pub bytes: u32,
    /// When the first comes.
    pub first: Instant,
    /// The time from the last packet of one message being made until the next message comes.
    pub pause: Duration,
    /// A message comes only if at most this many packets, its own included, have not left: at least
    /// as many as a message has.
    pub room: u32,
}

/// Work that runs before everything of the sender: `work` in every `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hog {
    /// Its processor time for one occurrence.
    pub work: Service,
    /// The time from one to the next, not zero.
    pub period: Duration,
    /// The times of its occurrences.
    pub pattern: HogPattern,
}

/// The pattern of a hog's occurrences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HogPattern {
    /// At `first`, then every period; but occurrences before `first + late` are delayed to then.
    /// With `late = period − work`, a budget used as late as possible and then as early as
    /// possible.
    Periodic {
        /// The beginning of the periods.
        first: Instant,
        /// The delay of the first occurrences.
        late: Duration,
    },
    /// Whenever a packet goes on the link and the last time is at least a period ago, so that the
    /// link becomes free while nothing can serve it.
    AtStarts,
}
