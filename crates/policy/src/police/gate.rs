//! What a sender wants done with what does not conform.

use punctual_model::Instant;
use punctual_model::channel::TooEarly;

use super::{Breach, Policer, Verdict};

/// A policer with the sender's choice of what becomes of a PDU that comes too early. One that waits
/// holds its sender (L4ATM, §2.5: the flow control of a synchronous write).
#[derive(Clone, Debug)]
pub struct Gate<P> {
    policer: P,
    too_early: TooEarly,
}

/// What to do with a PDU.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// Send it; it is charged.
    Pass,
    /// Hold the sender, and offer the PDU again then; nothing is charged.
    Wait {
        /// When it conforms.
        until: Instant,
    },
    /// Discard it, and say so to the sender.
    Lost(Breach),
}

impl<P: Policer> Gate<P> {
    /// Before `policer`.
    pub fn new(policer: P, too_early: TooEarly) -> Self {
        Self { policer, too_early }
    }

    /// A PDU of `bytes` wants to pass at `now`. One that is too large is lost whatever was chosen: it
    /// would wait for ever.
    #[inline]
    pub fn offer(&mut self, now: Instant, bytes: u32) -> Passage {
        match self.policer.police(now, bytes) {
            Verdict::Conforming => Passage::Pass,
            Verdict::NonConforming(Breach::TooEarly { conforms_at })
                if self.too_early == TooEarly::Waits =>
            {
                Passage::Wait { until: conforms_at }
            }
            Verdict::NonConforming(breach) => Passage::Lost(breach),
        }
    }
}
