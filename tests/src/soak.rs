//! What a soak draws: every family of systems that admission answers.

use std::collections::BTreeMap;

use crate::promise::{self, Outcome};
use crate::{together, upcalls};

/// What was kept of some systems.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many were drawn.
    pub seeds: u64,
    /// How many promises were broken.
    pub broken: u64,
    /// How many jobs of tasks were simulated.
    pub jobs: u64,
    /// Tasks whose bounds were held against what was seen, and how many of them were reached.
    pub bounds: (u64, u64),
    /// How many were admitted, by family.
    pub admitted: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// The system of `seed`: of ten seeds six are tasks on one CPU beneath reservations, one tasks on
    /// several CPUs, one upcalls on the machine that runs live, two tasks with channels and
    /// reservations.
    ///
    /// # Errors
    /// What was broken, with the seed that replays it.
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

    /// Both together.
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

    /// Each family is drawn, admits some and refuses some; a sum of tallies is the tally of the sum.
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
