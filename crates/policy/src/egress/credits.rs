//! Interval credits at the entrance of a channel.
//!
//! They say which messages are early: those wait or are lost, as their channel chose. When a message leaves
//! says the spacing in any case: the bounds of all channels hold for messages that are `I_min`
//! apart, and credits let up to two intervals of them come at once. For a channel that waits nothing else
//! follows from that: who waits for credit would wait as long for the spacing alone
//! ([`crate::police::UncertainArrivals`], and its tests).

use punctual_model::channel::{Sensitivity, TooEarly};
use punctual_model::{Duration, Instant};

use crate::police::{Breach, IntervalCredits, UncertainArrivals, UncertainVerdict};

/// Those of one channel, in messages.
#[derive(Clone, Debug)]
pub struct Credits {
    sensitivity: Sensitivity,
    policer: UncertainArrivals<IntervalCredits>,
}

/// What they say of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Credited {
    /// There was one for it.
    Conforming,
    /// It is charged to a later interval.
    Waits,
    /// There was none, and it is lost.
    TooEarly {
        /// When there is one.
        conforms_at: Instant,
    },
}

impl Credits {
    /// The first interval begins at `origin`.
    pub fn new(spacing: Duration, sensitivity: Sensitivity, origin: Instant) -> Self {
        let credits = IntervalCredits::of_messages(spacing, sensitivity, origin);
        Self { sensitivity, policer: UncertainArrivals::new(credits) }
    }

    /// Another spacing. The first interval begins with the last message that was charged, so that nobody
    /// gains more than that interval by a change; what that lets pass too early, the entrance holds back.
    pub(super) fn change(&mut self, spacing: Duration) {
        *self = Self::new(spacing, self.sensitivity, self.policer.last());
    }

    /// A message came between `since` and `seen`.
    pub(super) fn judge(&mut self, since: Instant, seen: Instant, too_early: TooEarly) -> Credited {
        // Each as a PDU of one byte: credits count messages.
        match self.policer.judge(since, seen, 1, too_early) {
            UncertainVerdict::Conforming => Credited::Conforming,
            UncertainVerdict::Waits { .. } => Credited::Waits,
            UncertainVerdict::Lost(Breach::TooEarly { conforms_at }) => {
                Credited::TooEarly { conforms_at }
            }
            // It would be of more than a byte.
            UncertainVerdict::Lost(Breach::TooLarge { .. }) => {
                Credited::TooEarly { conforms_at: Instant::MAX }
            }
        }
    }
}
