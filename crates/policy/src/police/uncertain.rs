//! Policing of messages whose arrival was not observed.

use punctual_model::Instant;
use punctual_model::channel::TooEarly;

use super::{Breach, Policer, Verdict};

/// A policer for a sender whose messages are observed only now and then, so that each has an
/// earliest and a latest possible arrival. It gives the benefit of the doubt: a message counts as
/// having come at the first instant in between at which it conforms.
///
/// So a conforming sender is never found in breach, at whatever times it is observed. By induction
/// a message counts as having come no later than it did, or in the same interval with no less
/// credit left, so a message that conformed at its arrival conforms here. And the instants at which
/// messages conform here are instants at which a conforming sender could have sent: a sender that
/// breaks its contract gets no more than the contract allows.
#[derive(Clone, Debug)]
pub struct UncertainArrivals<P> {
    policer: P,
    /// The time at which the last charged message counts as having come.
    last: Instant,
}

/// The verdict on a message.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UncertainVerdict {
    /// The message may have kept to the contract; it is charged.
    Conforming,
    /// The message came early and waits; it is charged at a later time.
    Waits {
        /// The time at which it conforms.
        until: Instant,
    },
    /// The message breaks the contract and is discarded. Nothing is charged.
    Lost(Breach),
}

impl<P: Policer> UncertainArrivals<P> {
    /// Wraps a policer that has judged no PDU yet.
    pub fn new(policer: P) -> Self {
        Self { policer, last: Instant::ZERO }
    }

    /// Judges a message of `bytes` that came at or after `since` and was there at `seen`. Neither
    /// may decrease.
    #[inline]
    pub fn judge(
        &mut self,
        since: Instant,
        seen: Instant,
        bytes: u32,
        too_early: TooEarly,
    ) -> UncertainVerdict {
        let at = since.max(self.last);
        let conforms_at = match self.policer.police(at, bytes) {
            Verdict::Conforming => {
                self.last = at;
                // If it counts later than it was seen, it is behind a message that waits.
                return if at <= seen {
                    UncertainVerdict::Conforming
                } else {
                    UncertainVerdict::Waits { until: at }
                };
            }
            Verdict::NonConforming(Breach::TooEarly { conforms_at }) => conforms_at,
            Verdict::NonConforming(breach) => return UncertainVerdict::Lost(breach),
        };
        let may_have_come_then = conforms_at <= seen;
        if !may_have_come_then && too_early == TooEarly::Discard {
            return UncertainVerdict::Lost(Breach::TooEarly { conforms_at });
        }
        let charged = self.policer.police(conforms_at, bytes);
        debug_assert!(charged == Verdict::Conforming || conforms_at == Instant::MAX);
        self.last = conforms_at;
        if may_have_come_then {
            UncertainVerdict::Conforming
        } else {
            UncertainVerdict::Waits { until: conforms_at }
        }
    }

    /// Returns the time at which the last charged message counts as having come; time zero before
    /// the first.
    pub fn last(&self) -> Instant {
        self.last
    }
}
