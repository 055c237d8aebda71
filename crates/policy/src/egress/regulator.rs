//! The regulator of a channel: it checks sizes and assigns logical arrivals.

use punctual_model::channel::{Sensitivity, TooEarly};
use punctual_model::{Duration, Instant};

use super::{Offered, Terms};
use crate::police::{Breach, IntervalCredits, UncertainArrivals, UncertainVerdict};

/// The logical arrivals of one channel (real-time channels, §2.1): at least `I_min` apart.
#[derive(Clone, Debug)]
pub(super) struct Regulator {
    terms: Terms,
    /// `(B_max − 1)·I_min`: how early a message of a conforming sender may be.
    most_early: Duration,
    /// The earliest logical arrival of the next message.
    next: Instant,
    /// The credits, if the channel is policed by them.
    pub(super) credits: Option<Credits>,
}

impl Regulator {
    pub(super) fn new(terms: Terms) -> Self {
        Self { terms, most_early: most_early(terms), next: Instant::ZERO, credits: None }
    }

    pub(super) fn change(&mut self, terms: Terms) {
        (self.terms, self.most_early) = (terms, most_early(terms));
        if let Some(credits) = &mut self.credits {
            credits.change(terms.arrivals.min_inter_arrival());
        }
    }

    pub(super) fn offer(&mut self, since: Instant, arrived: Instant, bytes: u32) -> Offered {
        let Terms { arrivals, too_early, .. } = self.terms;
        if bytes < arrivals.min_message() || bytes > arrivals.max_message() {
            return Offered::WrongSize;
        }
        let credited = match &mut self.credits {
            Some(credits) => credits.judge(since, arrived, too_early),
            None => Credited::Conforming,
        };
        if let Credited::TooEarly { conforms_at } = credited {
            return Offered::TooEarly { conforms_at };
        }
        let logical = since.max(self.next);
        let early = logical.saturating_since(arrived);
        let conforming = early <= self.most_early;
        if !conforming && too_early == TooEarly::Discard {
            let by = early.saturating_sub(self.most_early);
            return Offered::TooEarly { conforms_at: arrived.saturating_add(by) };
        }
        self.next = logical.saturating_add(arrivals.min_inter_arrival());
        let conforming = conforming && credited == Credited::Conforming;
        Offered::Taken { logical, conforming }
    }
}

/// Returns `(B_max − 1)·I_min`; if that does not fit, no message is ever too early.
fn most_early(terms: Terms) -> Duration {
    terms.arrivals.jitter().unwrap_or(Duration::MAX)
}

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
