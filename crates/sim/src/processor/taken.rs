//! Models a processor of which stretches are taken: given ones, or those that a hypervisor takes.

use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Reservation};
use rand::{Rng, RngExt};

use super::{Processor, Stretch};

/// A whole processor except for given stretches, such as those in which an earlier simulated run
/// occupied it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The stretches: disjoint, in order, none empty.
    away: Vec<(Instant, Instant)>,
    /// The number of stretches that have passed.
    passed: usize,
}

impl Taken {
    /// Takes the processor away in each `[from, to)`. The stretches come in the order of their
    /// beginnings. Empty ones are left out, and those that meet or overlap are merged.
    pub fn new(stretches: impl IntoIterator<Item = (Instant, Instant)>) -> Self {
        let mut away: Vec<(Instant, Instant)> = Vec::new();
        for (from, to) in stretches.into_iter().filter(|(from, to)| from < to) {
            match away.last_mut() {
                Some((_, end)) if from <= *end => *end = to.max(*end),
                _ => away.push((from, to)),
            }
        }
        Self { away, passed: 0 }
    }

    /// Returns the merged stretches.
    pub fn stretches(&self) -> &[(Instant, Instant)] {
        &self.away
    }
}

impl Processor for Taken {
    const WHOLE: bool = false;

    fn at(&mut self, now: Instant, _: bool) -> Stretch {
        while self.away.get(self.passed).is_some_and(|(_, to)| *to <= now) {
            self.passed += 1;
        }
        match self.away.get(self.passed) {
            Some(&(from, _)) if now < from => Stretch { served: true, until: from },
            Some(&(_, to)) => Stretch { served: false, until: to },
            None => Stretch { served: true, until: Instant::MAX },
        }
    }
}

/// The stolen time: `budget` out of every `period` from the origin of time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theft {
    /// Always at the same offset: this long after the start of each period, or as late as it fits.
    Regular(Reservation, Duration),
    /// At a newly drawn offset in each period.
    Drawn(Reservation),
}

/// Another processor, except for what is stolen. Nothing keeps the thief off, not even a switch or
/// a quantum. The processor underneath does not notice it: a reservation is charged for stolen time
/// as if its tasks had run.
#[derive(Clone, Debug)]
pub struct Stolen<P, R> {
    processor: P,
    theft: Theft,
    rng: R,
    /// The end of the current period, and the stretch that is stolen in it.
    period_end: Instant,
    from: Instant,
    to: Instant,
    taken: Duration,
}

impl<P: Processor, R: Rng> Stolen<P, R> {
    /// Takes `theft` from `processor`. Draws, if any, come from `rng`.
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

    /// Returns the time stolen by the end of the last period looked at, wanted or not.
    pub fn taken(&self) -> Duration {
        self.taken
    }

    /// Advances to the period of `now`.
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
    use alloc::vec;

    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::super::Whole;
    use super::*;

    /// Compares with a search of every stretch at every nanosecond.
    #[test]
    fn it_is_away_in_the_stretches_and_nowhere_else() {
        let ns = Instant::from_nanos;
        let listed = [(2, 5), (3, 4), (5, 7), (9, 9), (11, 12), (14, 20), (15, 21)];
        let taken = Taken::new(listed.map(|(from, to)| (ns(from), ns(to))));
        let merged = vec![(ns(2), ns(7)), (ns(11), ns(12)), (ns(14), ns(21))];
        assert_eq!(taken.stretches(), merged);
        for step in 1..6 {
            let mut taken = taken.clone();
            for now in (0..30).step_by(step) {
                let away = |at: u64| listed.iter().any(|&(from, to)| from <= at && at < to);
                let said = taken.at(ns(now), true);
                assert_eq!(said.served, !away(now), "{now}");
                let changes = (now + 1..30).find(|&at| away(at) != away(now));
                assert_eq!(said.until, changes.map_or(Instant::MAX, ns), "{now}");
            }
        }
    }

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
