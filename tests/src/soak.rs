//! Draws the systems of a soak: every family that admission answers for.

use std::collections::BTreeMap;

use crate::promise::{self, Outcome};
use crate::{together, upcalls};

/// The counts of a soak.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of systems drawn.
    pub seeds: u64,
    /// The number of broken promises.
    pub broken: u64,
    /// The number of simulated jobs of tasks.
    pub jobs: u64,
    /// The number of tasks whose bounds were compared with observations, and the number whose
    /// bounds were reached.
    pub bounds: (u64, u64),
    /// The number of admitted systems, by family.
    pub admitted: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Checks the system of `seed`: of ten seeds six are tasks on one CPU beneath reservations, one
    /// is tasks on several CPUs, one is upcalls on the live scheduler, and two are tasks with
    /// channels and reservations.
    ///
    /// # Errors
    /// Returns the broken promise, with the seed that replays it.
    pub fn of(seed: u64) -> Result<Self, String> {
        let mut tally = Self { seeds: 1, ..Self::default() };
        match seed % 10 {
            6 => tally.add_tasks(promise::holds_on_several(seed)?, "on several CPUs"),
            7 => {
                if let Some(jobs) = upcalls::holds(seed)? {
                    tally.keep("upcalls", jobs, (0, 0));
                }
            }
            8 | 9 => {
                if let Some(kept) = together::holds(seed)? {
                    tally.keep("tasks and channels", kept.jobs, (0, 0));
                }
            }
            _ => tally.add_tasks(promise::holds(seed)?, ""),
        }
        Ok(tally)
    }

    fn add_tasks(&mut self, outcome: Outcome, place: &'static str) {
        if let Outcome::Kept { policy, jobs, reached, tasks } = outcome {
            let family = if place.is_empty() { policy.name() } else { place };
            self.keep(family, jobs, (tasks, reached));
        }
    }

    fn keep(&mut self, family: &'static str, jobs: u64, bounds: (u64, u64)) {
        *self.admitted.entry(family).or_default() += 1;
        self.jobs += jobs;
        self.bounds = (self.bounds.0 + bounds.0, self.bounds.1 + bounds.1);
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.broken += other.broken;
        self.jobs += other.jobs;
        self.bounds = (self.bounds.0 + other.bounds.0, self.bounds.1 + other.bounds.1);
        for (family, count) in &other.admitted {
            *self.admitted.entry(family).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that each family is drawn, admitted at times and refused at times, and that a sum of
    /// tallies is the tally of the sum.
    #[test]
    fn every_family_is_drawn_and_has_both_answers() {
        let mut all = Tally::default();
        for seed in 0..2_000 {
            all.merge(&Tally::of(seed).unwrap_or_else(|broken| panic!("{broken}")));
        }
        assert_eq!((all.seeds, all.broken), (2_000, 0));
        let of = |family| all.admitted.get(family).copied().unwrap_or(0);
        for (family, drawn) in
            [("on several CPUs", 200), ("upcalls", 200), ("tasks and channels", 400)]
        {
            let admitted = of(family);
            assert!(drawn / 10 < admitted && admitted < drawn, "{family}: {all:?}");
        }
        for policy in ["rmdp", "rm", "fp", "edf", "fifo"] {
            assert!(of(policy) > 40, "{policy}: {all:?}");
        }
        assert!(all.bounds.1 > all.bounds.0 / 5, "{all:?}");
    }
}
