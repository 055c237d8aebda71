//! Random sets by classes of utilisation, and the part of each class that a test admits. A search
//! for a miss gives the upper bound: sets without one.

use std::ops::RangeInclusive;

use punctual_model::{Duration, Policy, Task};
use punctual_policy::jobs::Jobs;
use punctual_sim::witness::{Budget, search};
use punctual_trace::{Event, Kind, Sink};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::table::{Cell, Table, part};

/// The most jobs simulated for one set. All of them released at once, alone and with each blocker,
/// take far fewer; the rest goes into aligned deadlines.
const BUDGET: Budget = Budget { jobs: 5_000 };

/// A column: its name, and whether the test admits.
type Test = (&'static str, fn(&[Task]) -> bool);

/// Tests of the same tasks under the same policy.
pub(super) struct Family {
    /// The tasks under test, made from the set that was drawn.
    pub(super) of: fn(&[Task]) -> Vec<Task>,
    pub(super) tests: &'static [Test],
    pub(super) policy: Policy,
    /// The name of the column of sets in which no search finds a miss.
    pub(super) no_miss: &'static str,
}

impl Family {
    /// Returns for each column whether `set` counts in it.
    ///
    /// # Panics
    /// Panics if a test admits a set that was observed to miss: that would be an error in one of
    /// the two.
    fn judge(&self, set: &[Task]) -> impl Iterator<Item = bool> {
        let tasks = (self.of)(set);
        let misses = finds_a_miss(self.policy, &tasks);
        let admits: Vec<bool> = self.tests.iter().map(|(_, admits)| admits(&tasks)).collect();
        for ((name, _), admits) in self.tests.iter().zip(&admits) {
            assert!(!(misses && *admits), "{name} admits what misses: {tasks:#?}");
        }
        admits.into_iter().chain([!misses])
    }

    fn columns(&self) -> impl Iterator<Item = &'static str> {
        self.tests.iter().map(|(name, _)| *name).chain([self.no_miss])
    }
}

/// Draws tasks of this utilisation, in priority order.
type Drawing = fn(&mut ChaCha8Rng, f64) -> Vec<Task>;

/// Draws `sets` sets for each class of utilisation, with the lower edge in hundredths and classes
/// of 0.05. Returns the part of them that counts in each column.
pub(super) fn table(
    name: &'static str,
    title: &str,
    classes: RangeInclusive<u32>,
    sets: u64,
    families: &[Family],
    draw: Drawing,
) -> Table {
    let columns: Vec<&str> = families.iter().flat_map(Family::columns).collect();
    parts(name, title, classes, sets, &columns, |rng, total| {
        let set = draw(rng, total);
        families.iter().flat_map(|family| family.judge(&set)).collect()
    })
}

/// Does the same as [`table`] with any judge of one drawn set, which returns for each column
/// whether it counts.
pub(super) fn parts(
    name: &'static str,
    title: &str,
    classes: RangeInclusive<u32>,
    sets: u64,
    columns: &[&str],
    judge: impl Fn(&mut ChaCha8Rng, f64) -> Vec<bool>,
) -> Table {
    let title = format!("{title} (part of {sets} sets in each class)");
    let mut table = Table::new(name, title, &[&["utilisation"], columns].concat());
    for class in classes.step_by(5) {
        let low = f64::from(class) / 100.0;
        eprintln!("{name}: {low:.2}");
        let mut rng = ChaCha8Rng::seed_from_u64(u64::from(class));
        let mut counts = vec![0; columns.len()];
        for _ in 0..sets {
            let total = low + rng.random_range(0.0..0.05);
            for (counts, count) in judge(&mut rng, total).into_iter().zip(&mut counts) {
                *count += u64::from(counts);
            }
        }
        let parts = counts.into_iter().map(|count| part(count, sets));
        table
            .row([Cell::from(&*format!("{low:.2} to {:.2}", low + 0.05))].into_iter().chain(parts));
    }
    table
}

/// Returns whether a search finds a schedule of `tasks`, in priority order, in which a job is late.
fn finds_a_miss(policy: Policy, tasks: &[Task]) -> bool {
    search(tasks, &Jobs::of(policy, tasks, 0), BUDGET).is_some()
}

/// A sink that only records whether any job was late.
pub(super) struct Late {
    relative_deadlines: Vec<Duration>,
    pub(super) any: bool,
}

impl Late {
    pub(super) fn new(tasks: &[Task]) -> Self {
        Self { relative_deadlines: tasks.iter().map(Task::relative_deadline).collect(), any: false }
    }
}

impl Sink for Late {
    fn record(&mut self, Event { at, job, release, kind }: Event) {
        let deadline = release + self.relative_deadlines[job.task as usize];
        self.any |= kind == Kind::Complete && at > deadline;
    }
}
