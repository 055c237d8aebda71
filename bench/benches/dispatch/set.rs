//! The task set that every peer runs.

use std::fmt;

use punctual_model::{Duration, Instant};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// The periods in units, taken in turn; the frequencies of five tasks sum up to 0.05 a unit.
const PERIODS: [u64; 5] = [50, 80, 100, 200, 400];

/// The jobs a second of all tasks together.
const RATE: f64 = 10_000.0;

/// The first releases of the tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phases {
    Together,
    Spread,
}

impl fmt::Display for Phases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Together => "together",
            Self::Spread => "spread",
        })
    }
}

/// A period and a phase for each task.
pub(crate) struct Set {
    pub(crate) phases: Phases,
    tasks: Vec<(Duration, Duration)>,
}

impl Set {
    pub(crate) fn new(tasks: usize, phases: Phases) -> Self {
        let periods = PERIODS.into_iter().cycle().take(tasks);
        let per_unit: f64 = periods.clone().map(|period| 1.0 / period as f64).sum();
        let unit = (per_unit / RATE * 1e9) as u64;
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let tasks = periods.map(|period| {
            let period = period * unit;
            let phase = match phases {
                Phases::Together => 0,
                Phases::Spread => rng.random_range(0..period),
            };
            (Duration::from_nanos(period), Duration::from_nanos(phase))
        });
        Self { phases, tasks: tasks.collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    pub(crate) fn shortest(&self) -> Duration {
        self.tasks.iter().map(|(period, _)| *period).min().expect("some tasks")
    }

    /// Returns the period and phase of each task.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = (Duration, Duration)> + '_ {
        self.tasks.iter().copied()
    }

    /// Returns the releases of a task in `[start, end)`.
    pub(crate) fn releases(
        (period, phase): (Duration, Duration),
        start: Instant,
        end: Instant,
    ) -> impl Iterator<Item = Instant> {
        std::iter::successors(Some(start + phase), move |at| Some(*at + period))
            .take_while(move |at| *at < end)
    }
}
