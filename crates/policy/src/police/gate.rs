//! What a sender wants done with what does not conform.

use punctual_model::Instant;

use super::{Breach, Policer, Verdict};

/// What happens to a PDU that does not conform: the sender chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// The sender is held until it conforms (L4ATM, §2.5: the flow control of a synchronous write).
    Wait,
    /// The PDU is discarded, and the sender goes on.
    Lose,
}

/// A policer with the sender's choice.
#[derive(Clone, Debug)]
pub struct Gate<P> {
    policer: P,
    excess: Excess,
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
    pub fn new(policer: P, excess: Excess) -> Self {
        Self { policer, excess }
    }

    /// A PDU of `bytes` wants to pass at `now`. One that is too large is lost whatever was chosen: it
    /// would wait for ever.
    #[inline]
    pub fn offer(&mut self, now: Instant, bytes: u32) -> Passage {
        match self.policer.police(now, bytes) {
            Verdict::Conforming => Passage::Pass,
            Verdict::NonConforming(Breach::TooEarly { conforms_at })
                if self.excess == Excess::Wait =>
            {
                Passage::Wait { until: conforms_at }
            }
            Verdict::NonConforming(breach) => Passage::Lost(breach),
        }
    }
}
