//! Is the carrier still good? Bad signal leads to a retrain, and then to an honest NO CARRIER,
//! never to silent garbage.
//!
//! The demodulator tells for each symbol how far it lay from the point it was taken for, and when
//! its carrier comes and goes. The supervisor says what to do about it. V.22bis stays "connected"
//! for ever after a few lost samples, and only this tells.
//!
//! # Units
//! The error of a symbol is its squared distance from the nearest point of the constellation, in
//! thousandths of the squared half distance between two points: 0 is perfect, 1000 lies on the
//! border, and symbols at random average some 670.
//!
//! # Order of calls
//! [`Supervisor::symbol`] and [`Supervisor::carrier`] in the order of time, then
//! [`Supervisor::check`] at least every few tens of milliseconds; do what it says.

use punctual_model::{Duration, Instant};

/// The average is over about so many symbols.
const MEMORY: i64 = 128;

/// When to do what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// An average error above this is bad.
    pub bad: u32,
    /// An average error below this is good again.
    pub good: u32,
    /// Bad for so long asks for a retrain.
    pub patience: Duration,
    /// A retrain has so long to come to good signal.
    pub retrain: Duration,
    /// Retrains that may fail one after the other.
    pub retrains: u8,
    /// Good for so long forgives the retrains before.
    pub forgiven: Duration,
    /// No carrier for so long is the end: S10.
    pub carrier_loss: Duration,
    /// No carrier for so long, if that is less, asks for a retrain: a far end that trains anew
    /// begins with silence. `None` where there is nothing to train.
    pub blink: Option<Duration>,
    /// While it retrains, a carrier may be away for so much longer than [`Limits::carrier_loss`]:
    /// the far end speaks when it has heard us.
    pub silence: Duration,
}

impl Default for Limits {
    /// For V.22bis: on a line of 26 dB the average is some 30, and from 450 on bits are wrong.
    fn default() -> Self {
        Self {
            bad: 400,
            good: 250,
            patience: Duration::from_millis(1_500),
            retrain: Duration::from_secs(6),
            retrains: 2,
            forgiven: Duration::from_secs(30),
            carrier_loss: Duration::from_millis(1_400),
            blink: Some(Duration::from_millis(400)),
            silence: Duration::from_secs(1),
        }
    }
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a bad signal that nobody acts on is silent garbage"]
pub enum Verdict {
    /// Go on.
    GoOn,
    /// Let the modem train anew, now.
    Retrain,
    /// Hang up and say NO CARRIER. It stays so.
    NoCarrier,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Good { since: Instant },
    Bad { since: Instant },
    Retraining { since: Instant },
    Over,
}

/// Watches over one receiver.
#[derive(Clone, Debug)]
pub struct Supervisor {
    limits: Limits,
    state: State,
    /// When the carrier went, while it is gone.
    gone: Option<Instant>,
    /// The average error times [`MEMORY`].
    average: i64,
    retrains: u8,
}

impl Supervisor {
    /// Begins at `now`, with a carrier that is there and good.
    pub fn new(now: Instant, limits: Limits) -> Self {
        Self { limits, state: State::Good { since: now }, gone: None, average: 0, retrains: 0 }
    }

    /// A symbol came, so far from its point. While there is no carrier, symbols mean nothing.
    pub fn symbol(&mut self, error: u32) {
        if self.gone.is_none() {
            // An outlier must not outweigh its neighbours for long.
            self.average += i64::from(error.min(4_000)) - self.average / MEMORY;
        }
    }

    /// The carrier came or went.
    pub fn carrier(&mut self, now: Instant, present: bool) {
        match (present, self.gone) {
            (true, _) => self.gone = None,
            (false, None) => self.gone = Some(now),
            (false, Some(_)) => {}
        }
    }

    /// The average error.
    pub fn error(&self) -> u32 {
        u32::try_from(self.average / MEMORY).unwrap_or(0)
    }

    /// Whether the average error is above [`Limits::bad`]: what a receiver makes of such a signal is
    /// not to be trusted. Asked for each bit, so without a division.
    #[inline]
    pub fn signal_is_bad(&self) -> bool {
        self.average >= (i64::from(self.limits.bad) + 1) * MEMORY
    }

    /// What to do at `now`.
    pub fn check(&mut self, now: Instant) -> Verdict {
        let limits = self.limits;
        let lasts = |since: Instant, length| now.saturating_since(since) >= length;
        if let Some(since) = self.gone {
            let retrains = matches!(self.state, State::Retraining { .. });
            let grace = if retrains { limits.silence } else { Duration::ZERO };
            if lasts(since, limits.carrier_loss + grace) {
                self.state = State::Over;
            } else if !retrains
                && self.state != State::Over
                && limits.blink.is_some_and(|blink| lasts(since, blink))
            {
                return self.retrain(now);
            }
        }
        match self.state {
            State::Over => return Verdict::NoCarrier,
            State::Retraining { since } => {
                if lasts(since, limits.retrain) {
                    return self.retrain(now);
                }
            }
            // A carrier that is away for a moment is neither good nor bad.
            _ if self.gone.is_some() => {}
            State::Good { since } => {
                if self.signal_is_bad() {
                    self.state = State::Bad { since: now };
                } else if lasts(since, limits.forgiven) {
                    self.retrains = 0;
                }
            }
            State::Bad { since } => {
                if self.error() < limits.good {
                    self.state = State::Good { since: now };
                } else if lasts(since, limits.patience) {
                    return self.retrain(now);
                }
            }
        }
        Verdict::GoOn
    }

    /// The modem says that a retrain, ours or the far end's, is under way.
    pub fn training(&mut self, now: Instant) {
        if !matches!(self.state, State::Over | State::Retraining { .. }) {
            self.state = State::Retraining { since: now };
        }
    }

    /// The modem says that training succeeded.
    pub fn trained(&mut self, now: Instant) {
        if self.state != State::Over {
            self.average = 0;
            self.state = State::Good { since: now };
        }
    }

    fn retrain(&mut self, now: Instant) -> Verdict {
        if self.retrains >= self.limits.retrains {
            self.state = State::Over;
            return Verdict::NoCarrier;
        }
        self.retrains += 1;
        self.average = 0;
        self.state = State::Retraining { since: now };
        Verdict::Retrain
    }
}

#[cfg(test)]
mod tests;
