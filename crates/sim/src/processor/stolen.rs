//! A hypervisor takes the processor away.

use punctual_model::{Duration, Instant, Reservation};
use rand::{Rng, RngExt};

use super::{Processor, Stretch};

/// How much is taken, and when: `budget` out of every `period` from the origin of time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theft {
    /// Always at the same offset: this long after the start of each period, or as late as it fits.
    Regular(Reservation, Duration),
    /// Each time anywhere in the period.
    Drawn(Reservation),
}

/// Another processor, but for what is stolen. The thief asks nobody: not even a switch or a quantum
/// keeps it off. The processor underneath knows nothing of it: a reservation is charged for stolen
/// time as if its holder had run.
#[derive(Clone, Debug)]
pub struct Stolen<P, R> {
    processor: P,
    theft: Theft,
    rng: R,
    /// The period looked at, and what is stolen in it.
    period_end: Instant,
    from: Instant,
    to: Instant,
    taken: Duration,
}

impl<P: Processor, R: Rng> Stolen<P, R> {
    /// `theft` from `processor`; draws, if any, come from `rng`.
    pub fn new(processor: P, theft: Theft, rng: R) -> Self {
        Self {
            processor,
            theft,
            rng,
            period_end: Instant::ZERO,
            from: Instant::ZERO,
            to: Instant::ZERO,
            taken: Duration::ZERO,
        }
    }

    /// What was stolen by the end of the last period looked at, whether anybody wanted it or not.
    pub fn taken(&self) -> Duration {
        self.taken
    }

    /// Finds the period that `now` is in.
    fn catch_up(&mut self, now: Instant) {
        let (Theft::Regular(loss, _) | Theft::Drawn(loss)) = self.theft;
        let (period, budget) = (loss.period(), loss.budget().at_full_speed());
        while self.period_end <= now {
            let latest = period - budget;
            let offset = match self.theft {
                Theft::Regular(_, offset) => offset.min(latest),
                Theft::Drawn(_) => {
                    Duration::from_nanos(self.rng.random_range(0..=latest.as_nanos()))
                }
            };
            self.from = self.period_end + offset;
            self.to = self.from + budget;
            self.period_end += period;
            self.taken += budget;
        }
    }
}

impl<P: Processor, R: Rng> Processor for Stolen<P, R> {
    const WHOLE: bool = false;

    fn at(&mut self, now: Instant, wanted: bool) -> Stretch {
        self.catch_up(now);
        let under = self.processor.at(now, wanted);
        if now < self.from {
            Stretch { until: under.until.min(self.from), ..under }
        } else if now < self.to {
            Stretch { served: false, until: under.until.min(self.to) }
        } else {
            Stretch { until: under.until.min(self.period_end), ..under }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Whole;
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn every_period_loses_what_is_stolen_and_no_more() {
        let loss: Reservation = "3ns/10ns".parse().expect("valid");
        for theft in [Theft::Regular(loss, Duration::from_nanos(9)), Theft::Drawn(loss)] {
            let mut stolen = Stolen::new(Whole, theft, ChaCha8Rng::seed_from_u64(1));
            for period in 0..100u64 {
                let served = (0..10)
                    .filter(|at| stolen.at(Instant::from_nanos(10 * period + at), true).served)
                    .count();
                assert_eq!(served, 7, "{theft:?}");
            }
            assert_eq!(stolen.taken(), Duration::from_nanos(300));
        }
    }
}
