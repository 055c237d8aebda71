//! Models a processor of which given stretches are taken.

use alloc::vec::Vec;

use punctual_model::Instant;

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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

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
}
