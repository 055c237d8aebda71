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
}

impl Default for Limits {
    /// For V.22bis: on a line of 26 dB the average is some 30, and from 450 on bits are wrong.
    fn default() -> Self {
        Self {
            bad: 400,
            good: 250,
            patience: Duration::from_millis(1_500),
            retrain: Duration::from_secs(5),
            retrains: 2,
            forgiven: Duration::from_secs(30),
            carrier_loss: Duration::from_millis(1_400),
        }
    }
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a bad signal that nobody acts on is silent garbage"]
pub enum Verdict {
    /// Go on.
    GoOn,
    /// Ask the modem for a retrain, now.
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

    /// What to do at `now`.
    pub fn check(&mut self, now: Instant) -> Verdict {
        let limits = self.limits;
        let lasts = |since: Instant, length| now.saturating_since(since) >= length;
        if self.gone.is_some_and(|since| lasts(since, limits.carrier_loss)) {
            self.state = State::Over;
        }
        match self.state {
            State::Over => return Verdict::NoCarrier,
            // A carrier that is away for a moment is neither good nor bad.
            _ if self.gone.is_some() => {}
            State::Good { since } => {
                if self.error() > limits.bad {
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
            State::Retraining { since } => {
                if lasts(since, limits.retrain) {
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
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    const LIMITS: Limits = Limits {
        bad: 400,
        good: 250,
        patience: Duration::from_millis(500),
        retrain: Duration::from_secs(2),
        retrains: 2,
        forgiven: Duration::from_secs(10),
        carrier_loss: Duration::from_millis(1_400),
    };

    /// 600 symbols a second of one error for `ms`, looked at every 20 ms; what was said other than
    /// to go on, with its time since the start of the call.
    fn run(watch: &mut Supervisor, now: &mut Instant, ms: u64, error: u32) -> Vec<(u64, Verdict)> {
        let mut said = Vec::new();
        for _ in 0..ms / 20 {
            (0..12).for_each(|_| watch.symbol(error));
            *now += Duration::from_millis(20);
            let verdict = watch.check(*now);
            if verdict != Verdict::GoOn {
                said.push((now.as_nanos() / 1_000_000, verdict));
            }
        }
        said
    }

    #[test]
    fn a_good_signal_and_short_trouble_are_let_be() {
        let mut now = Instant::ZERO;
        let mut watch = Supervisor::new(now, LIMITS);
        assert_eq!(run(&mut watch, &mut now, 60_000, 30), []);
        assert!((25..=30).contains(&watch.error()), "{}", watch.error());
        for _ in 0..10 {
            assert_eq!(run(&mut watch, &mut now, 300, 700), []);
            assert_eq!(run(&mut watch, &mut now, 2_000, 30), []);
        }
    }

    #[test]
    fn bad_signal_retrains_twice_and_then_says_no_carrier_for_ever() {
        let mut now = Instant::ZERO;
        let mut watch = Supervisor::new(now, LIMITS);
        let said = run(&mut watch, &mut now, 8_000, 700);
        let verdicts: Vec<Verdict> = said.iter().map(|(_, verdict)| *verdict).take(3).collect();
        assert_eq!(verdicts, [Verdict::Retrain, Verdict::Retrain, Verdict::NoCarrier]);
        assert!((600..900).contains(&said[0].0), "{said:?}");
        assert_eq!(said[1].0 - said[0].0, 2_000, "each has its time");
        watch.trained(now);
        assert_eq!(watch.check(now), Verdict::NoCarrier, "nothing brings it back");
    }

    #[test]
    fn a_retrain_that_succeeds_is_forgiven_after_a_while() {
        let mut now = Instant::ZERO;
        let mut watch = Supervisor::new(now, LIMITS);
        for _ in 0..20 {
            let said = run(&mut watch, &mut now, 1_000, 700);
            assert_eq!(said.len(), 1, "{said:?}");
            assert_eq!(said[0].1, Verdict::Retrain);
            watch.trained(now);
            assert_eq!(run(&mut watch, &mut now, 11_000, 30), []);
        }
        // Without the while, the third time is the last.
        for expected in [Verdict::Retrain, Verdict::Retrain, Verdict::NoCarrier] {
            let said = run(&mut watch, &mut now, 1_000, 700);
            assert_eq!(said.first().map(|(_, verdict)| *verdict), Some(expected));
            watch.trained(now);
        }
    }

    #[test]
    fn a_carrier_may_be_away_for_less_than_s10() {
        let mut now = Instant::ZERO;
        let mut watch = Supervisor::new(now, LIMITS);
        let blink = Duration::from_millis(1_400) - Duration::from_nanos(1);
        for _ in 0..5 {
            watch.carrier(now, false);
            now += blink;
            assert_eq!(watch.check(now), Verdict::GoOn);
            watch.carrier(now, true);
            now += Duration::from_millis(1);
        }
        watch.carrier(now, false);
        now += blink;
        watch.carrier(now, false);
        now += Duration::from_nanos(1);
        assert_eq!(watch.check(now), Verdict::NoCarrier);
    }

    #[test]
    fn whatever_comes_a_bad_signal_ends_in_bounded_time() {
        for seed in 0..500 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut now = Instant::ZERO;
            let mut watch = Supervisor::new(now, LIMITS);
            for _ in 0..50 {
                let error = rng.next_u32() % 1_000;
                let _ = run(&mut watch, &mut now, 20 * u64::from(rng.next_u32() % 100), error);
                match rng.next_u32() % 4 {
                    0 => watch.carrier(now, false),
                    1 => watch.carrier(now, true),
                    2 => watch.training(now),
                    _ => watch.trained(now),
                }
            }
            watch.carrier(now, true);
            let said = run(&mut watch, &mut now, 20_000, 900);
            assert_eq!(
                said.last().map(|(_, verdict)| *verdict),
                Some(Verdict::NoCarrier),
                "{seed}"
            );
        }
    }
}
