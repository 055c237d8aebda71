//! Interval credits in a channel's regulator.
//!
//! They decide which messages are early; the channel's terms decide whether those wait or are lost.
//! The spacing decides in any case when a message leaves: the bounds of all channels hold for
//! messages that are `I_min` apart, and credits let up to two intervals of messages come at once.
//! So a channel whose early messages wait behaves the same without credits: a message that waits
//! for credit would wait as long for the spacing alone ([`crate::police::UncertainArrivals`], and
//! its tests).

use punctual_model::channel::{Sensitivity, TooEarly};
use punctual_model::{Duration, Instant};

use crate::police::{Breach, IntervalCredits, UncertainArrivals, UncertainVerdict};

/// The credits of one channel, counted in messages.
#[derive(Clone, Debug)]
pub struct Credits {
    sensitivity: Sensitivity,
    policer: UncertainArrivals<IntervalCredits>,
}

/// The verdict of the credits on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Credited {
    /// The message had a credit.
    Conforming,
    /// The message is charged to a later interval.
    Waits,
    /// The message had no credit and is lost.
    TooEarly {
        /// The time at which it would have one.
        conforms_at: Instant,
    },
}

impl Credits {
    /// Makes credits with the first interval beginning at `origin`.
    pub fn new(spacing: Duration, sensitivity: Sensitivity, origin: Instant) -> Self {
        let credits = IntervalCredits::of_messages(spacing, sensitivity, origin);
        Self { sensitivity, policer: UncertainArrivals::new(credits) }
    }

    /// Changes the spacing. The first interval begins with the last charged message, so a change
    /// gains the sender at most that interval. The regulator holds back messages that this lets
    /// pass too early.
    pub(super) fn change(&mut self, spacing: Duration) {
        *self = Self::new(spacing, self.sensitivity, self.policer.last());
    }

    /// Judges a message that came between `since` and `seen`.
    pub(super) fn judge(&mut self, since: Instant, seen: Instant, too_early: TooEarly) -> Credited {
        // Each message is charged as a PDU of one byte, because credits count messages.
        match self.policer.judge(since, seen, 1, too_early) {
            UncertainVerdict::Conforming => Credited::Conforming,
            UncertainVerdict::Waits { .. } => Credited::Waits,
            UncertainVerdict::Lost(Breach::TooEarly { conforms_at }) => {
                Credited::TooEarly { conforms_at }
            }
            // Cannot happen: no PDU has more than one byte.
            UncertainVerdict::Lost(Breach::TooLarge { .. }) => {
                Credited::TooEarly { conforms_at: Instant::MAX }
            }
        }
    }
}
