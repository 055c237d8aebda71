//! Policing what was not seen coming.

use punctual_model::Instant;
use punctual_model::channel::TooEarly;

use super::{Breach, Policer, Verdict};

/// A policer for a sender whose messages are looked at now and then: of each is known only since when and
/// until when it may have come. It has the benefit of the doubt: it counts as having come at the first
/// instant in between at which it conforms.
///
/// So no sender that kept to its contract is found in breach, whenever it is looked at. By induction a
/// message counts as having come no later than it did, or in the same interval with no less credit left,
/// so what conformed when it came conforms here. And what conforms here are instants at which a conforming
/// sender could have sent: who breaks its contract gets what the contract allows, and no more.
#[derive(Clone, Debug)]
pub struct UncertainArrivals<P> {
    policer: P,
    /// When the last one that was charged counts as having come.
    last: Instant,
}

/// What is to become of a message.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UncertainVerdict {
    /// It may have kept to the contract; it is charged.
    Conforming,
    /// It came before its time, and its sender waits: it is charged for then.
    Waits {
        /// When it conforms.
        until: Instant,
    },
    /// It breaks the contract, and its sender loses it. Nothing is charged.
    Lost(Breach),
}

impl<P: Policer> UncertainArrivals<P> {
    /// Around a policer that has seen nothing yet.
    pub fn new(policer: P) -> Self {
        Self { policer, last: Instant::ZERO }
    }

    /// A message of `bytes` came after `since`, or then, and was there at `seen`. Neither ever goes back.
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
                // Later than it was seen: behind one that waits.
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
        if !may_have_come_then && too_early == TooEarly::IsLost {
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

    /// When the last message that was charged counts as having come; the beginning of time before the
    /// first.
    pub fn last(&self) -> Instant {
        self.last
    }
}
