//! Supervises the carrier. A bad signal leads to a retrain, and then to an honest NO CARRIER, never
//! to silent garbage.
//!
//! The demodulator reports for each symbol its distance from the point it was decoded as, and when
//! its carrier comes and goes. The supervisor decides what to do about it. V.22bis stays
//! "connected" for ever after a few lost samples, and only these reports reveal it.
//!
//! # Units
//! The error of a symbol is its squared distance from the nearest point of the constellation, in
//! thousandths of the squared half distance between two points: 0 is perfect, 1000 lies on the
//! border, and random symbols average some 670.
//!
//! # Order of calls
//! Call [`Supervisor::symbol`] and [`Supervisor::carrier`] in order of time, then
//! [`Supervisor::check`] at least every few tens of milliseconds, and follow its verdict.

use punctual_model::{Duration, Instant};

/// The approximate number of symbols in the average.
const MEMORY: i64 = 128;

/// The thresholds and times of supervision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// An average error above this is bad.
    pub bad: u32,
    /// An average error below this is good again.
    pub good: u32,
    /// A bad signal for this long requires a retrain.
    pub patience: Duration,
    /// The time in which a retrain must lead to a good signal.
    pub retrain: Duration,
    /// The number of retrains that may fail one after the other.
    pub retrains: u8,
    /// A good signal for this long resets the count of retrains.
    pub forgiven: Duration,
    /// The call ends without a carrier for this long: S10.
    pub carrier_loss: Duration,
    /// The carrier's absence after which to retrain, if shorter than [`Limits::carrier_loss`]: a
    /// far end that retrains begins with silence. `None` if the modulation needs no training.
    pub blink: Option<Duration>,
    /// The extra time, beyond [`Limits::carrier_loss`], that a carrier may be absent during a
    /// retrain: the far end sends only after it has received us.
    pub silence: Duration,
}

impl Default for Limits {
    /// Returns the limits for V.22bis: on a line of 26 dB the average is some 30, and from 450 on
    /// bits are wrong.
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

/// The action to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a bad signal that nobody acts on is silent garbage"]
pub enum Verdict {
    /// Continue.
    GoOn,
    /// Retrain the modem now.
    Retrain,
    /// Hang up with NO CARRIER. This verdict is final.
    NoCarrier,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Good { since: Instant },
    Bad { since: Instant },
    Retraining { since: Instant },
    Over,
}

/// The supervisor of one receiver.
#[derive(Clone, Debug)]
pub struct Supervisor {
    limits: Limits,
    state: State,
    /// The time at which the carrier went, while it is absent.
    gone: Option<Instant>,
    /// The average error times [`MEMORY`].
    average: i64,
    retrains: u8,
}

impl Supervisor {
    /// Starts at `now`, with a carrier that is present and good.
    pub fn new(now: Instant, limits: Limits) -> Self {
        Self { limits, state: State::Good { since: now }, gone: None, average: 0, retrains: 0 }
    }

    /// Takes the error of a received symbol. Symbols are ignored while there is no carrier.
    pub fn symbol(&mut self, error: u32) {
        if self.gone.is_none() {
            // Limited, so that an outlier does not outweigh its neighbours for long.
            self.average += i64::from(error.min(4_000)) - self.average / MEMORY;
        }
    }

    /// Records that the carrier came or went.
    pub fn carrier(&mut self, now: Instant, present: bool) {
        match (present, self.gone) {
            (true, _) => self.gone = None,
            (false, None) => self.gone = Some(now),
            (false, Some(_)) => {}
        }
    }

    /// Returns the average error.
    pub fn error(&self) -> u32 {
        u32::try_from(self.average / MEMORY).unwrap_or(0)
    }

    /// Returns true if the average error is above [`Limits::bad`]: the bits of such a signal are
    /// not to be trusted. Called for each bit, so it avoids a division.
    #[inline]
    pub fn signal_is_bad(&self) -> bool {
        self.average >= (i64::from(self.limits.bad) + 1) * MEMORY
    }

    /// Returns the action to take at `now`.
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
            // A carrier that is briefly absent is neither good nor bad.
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

    /// Records that the modem has started a retrain, by itself or for the far end.
    pub fn training(&mut self, now: Instant) {
        if !matches!(self.state, State::Over | State::Retraining { .. }) {
            self.state = State::Retraining { since: now };
        }
    }

    /// Records that training succeeded.
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
