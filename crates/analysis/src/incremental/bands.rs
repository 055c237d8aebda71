//! A coarse proof for very many tasks, at a cost that does not depend on their number.

use alloc::collections::BTreeMap;

use punctual_model::{Service, Task};

use crate::load::TaskLoad;
use crate::steps::{OutOfSteps, Steps};

/// Bands in each doubling of the period; a power of two.
const IN_AN_OCTAVE: u32 = 16;

/// Tasks under `rm` or `rmdp`, in bands of similar periods, each proven by one instant.
///
/// A band has the tasks with a period of at least its floor P and below that of the next band,
/// which is 3 to 6 % longer. With the tasks ordered by period, B the longest quantum of any task
/// and no reservations, the work that can delay a task of the band in a window of P is at most
/// `B + Σ ⌈P/T_j⌉·C_j` over all tasks j of this and the shorter bands, itself included. If that is
/// not above P, it is a certificate of the task (see the module above: `f_i(P) ≤ P`, and
/// `P ≤ T_i ≤ D_i`). So [`Self::hold`] is sufficient and not necessary: tasks with the same period,
/// or with multiples of it, are proven up to nearly the whole CPU, others up to about two thirds of
/// it.
///
/// An added task changes one sum in each band from its own on. There are 16 bands for each doubling
/// from the shortest period to the longest, so at most 1,024; the first task of a band costs a look
/// at each existing period. Sums are whole numbers, subtracted as they were added, so nothing
/// drifts.
///
/// ```
/// use punctual_analysis::Steps;
/// use punctual_analysis::incremental::Bands;
/// use punctual_model::{Duration, Service, Task, TaskSpec};
///
/// let period = Duration::from_millis(20);
/// let line = TaskSpec::periodic("line", period, Service::from_micros(9));
/// let line = Task::new(line).expect("valid");
/// let mut bands = Bands::new(Service::ZERO);
/// for _ in 0..2_000 {
///     assert!(bands.add(&line, &mut Steps::default()));
/// }
/// assert!(bands.hold(), "18 ms of 20 ms");
/// for _ in 0..500 {
///     assert!(bands.add(&line, &mut Steps::default()));
/// }
/// assert!(!bands.hold(), "not proven: 22.5 ms");
/// ```
#[derive(Clone, Debug)]
pub struct Bands {
    context_switch: Service,
    /// The blocking of all tasks by wake-ups, in nanoseconds.
    wake_up: u64,
    /// By period: the number of tasks that have it, and the sum of their work.
    works: BTreeMap<u64, (u32, u128)>,
    /// The number of tasks with each quantum.
    quanta: BTreeMap<u64, u32>,
    /// By floor: the demand of this band and the shorter ones in a window of that length.
    demands: BTreeMap<u64, u128>,
}

impl Bands {
    /// Starts without tasks. Each job is charged two `context_switch`es.
    pub fn new(context_switch: Service) -> Self {
        let (works, quanta, demands) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { context_switch, wake_up: 0, works, quanta, demands }
    }

    /// Runs the tasks on threads that wake up late: see
    /// [`CpuLoad::with_wake_up`](crate::CpuLoad::with_wake_up).
    pub fn with_wake_up(self, wake_up: Service) -> Self {
        Self { wake_up: wake_up.as_nanos(), ..self }
    }

    /// Counts `task` as well. Returns false, with nothing changed, if bands cannot prove it (it has
    /// release jitter, or a deadline before its next release), or if `steps` ran out.
    #[must_use]
    pub fn add(&mut self, task: &Task, steps: &mut Steps) -> bool {
        self.add_load(&TaskLoad::new(task, self.context_switch), steps)
    }

    /// Counts a task that already includes its switches, like [`Self::add`].
    #[must_use]
    pub(crate) fn add_load(&mut self, load: &TaskLoad, steps: &mut Steps) -> bool {
        if !suits(load) || self.open(floor(load.period), steps).is_err() {
            return false;
        }
        let touched = self.demands.range(floor(load.period)..).count();
        if steps.take(touched).is_err() {
            return false;
        }
        for (&floor, demand) in self.demands.range_mut(floor(load.period)..) {
            *demand += work_by(floor, load.period, u128::from(load.work));
        }
        let (tasks, work) = self.works.entry(load.period).or_default();
        (*tasks, *work) = (*tasks + 1, *work + u128::from(load.work));
        *self.quanta.entry(load.quantum).or_default() += 1;
        true
    }

    /// Stops counting `task`, which was added.
    ///
    /// # Panics
    /// May panic if the task was not added.
    pub fn remove(&mut self, task: &Task) {
        self.remove_load(&TaskLoad::new(task, self.context_switch));
    }

    /// Stops counting a load that [`Self::add_load`] counted.
    pub(crate) fn remove_load(&mut self, load: &TaskLoad) {
        let work = u128::from(load.work);
        for (&floor, demand) in self.demands.range_mut(floor(load.period)..) {
            *demand -= work_by(floor, load.period, work);
        }
        if let Some((tasks, sum)) = self.works.get_mut(&load.period) {
            (*tasks, *sum) = (*tasks - 1, *sum - work);
            if *tasks == 0 {
                self.works.remove(&load.period);
            }
        }
        if let Some(tasks) = self.quanta.get_mut(&load.quantum) {
            *tasks -= 1;
            if *tasks == 0 {
                self.quanta.remove(&load.quantum);
            }
        }
        if self.works.is_empty() {
            self.demands.clear();
        }
    }

    /// Returns whether all tasks are proven in time. If not, they may still be in time.
    pub fn hold(&self) -> bool {
        let quantum = self.quanta.last_key_value().map_or(0, |(quantum, _)| *quantum);
        let blocking = u128::from(quantum.max(self.wake_up));
        self.demands.iter().all(|(&floor, &demand)| demand + blocking <= u128::from(floor))
    }

    /// Makes sure that the band with this floor exists. It stays until there are no tasks at all.
    fn open(&mut self, floor: u64, steps: &mut Steps) -> Result<(), OutOfSteps> {
        if self.demands.contains_key(&floor) {
            return Ok(());
        }
        steps.take(self.works.len() + 1)?;
        let above = self.works.range(..floor);
        let demand = above.map(|(&period, &(_, work))| work_by(floor, period, work)).sum();
        self.demands.insert(floor, demand);
        Ok(())
    }
}

fn suits(task: &TaskLoad) -> bool {
    task.jitter == 0 && task.deadline >= task.period
}

/// Returns the floor of the band that has this period: its leading bits.
pub(super) fn floor(period: u64) -> u64 {
    let below = (period.ilog2()).saturating_sub(IN_AN_OCTAVE.ilog2());
    period >> below << below
}

/// Returns the demand in a window of tasks with this period and together `work` per period.
fn work_by(window: u64, period: u64, work: u128) -> u128 {
    u128::from(window.div_ceil(period)) * work
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use punctual_model::{Duration, TaskSpec};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::fixed_priority::all_in_time;
    use crate::load::CpuLoad;

    fn draw(rng: &mut ChaCha8Rng, part: u64) -> Task {
        let magnitude = 1u64 << rng.random_range(6..26);
        let period = rng.random_range(magnitude..2 * magnitude);
        let wcet = rng.random_range(1..=period.div_ceil(part));
        let quantum = if rng.random() { rng.random_range(0..=wcet) } else { 0 };
        Task::new(TaskSpec {
            relative_deadline: Duration::from_nanos(period * rng.random_range(1..3)),
            quantum: Service::from_nanos(quantum),
            ..TaskSpec::periodic("t", Duration::from_nanos(period), Service::from_nanos(wcet))
        })
        .expect("valid")
    }

    /// Applies the definition, from scratch.
    fn slowly(tasks: &[Task], switch: Service, wake_up: Service) -> bool {
        let loads: Vec<_> = tasks.iter().map(|task| TaskLoad::new(task, switch)).collect();
        let quanta = loads.iter().map(|one| one.quantum);
        let blocking = quanta.max().unwrap_or(0).max(wake_up.as_nanos());
        loads.iter().all(|one| {
            let window = floor(one.period);
            let band = loads.iter().filter(|other| floor(other.period) <= window);
            let work: u64 = band.map(|other| window.div_ceil(other.period) * other.work).sum();
            work + blocking <= window
        })
    }

    #[test]
    fn kept_sums_equal_a_count_from_scratch_and_prove_all_in_time() {
        let (mut held, mut not_held) = (0, 0);
        for seed in 0..40 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let switch = Service::from_nanos(seed % 3);
            let wake_up = Service::from_nanos(seed % 4 * 3);
            let part = [8, 40, 200][seed as usize % 3];
            let mut bands = Bands::new(switch).with_wake_up(wake_up);
            let mut tasks: Vec<Task> = Vec::new();
            for _ in 0..60 {
                if !tasks.is_empty() && (rng.random_ratio(1, 3) || !bands.hold()) {
                    bands.remove(&tasks.swap_remove(rng.random_range(0..tasks.len())));
                } else {
                    let task = draw(&mut rng, part);
                    assert!(bands.add(&task, &mut Steps::default()));
                    tasks.push(task);
                }
                // An open band without tasks can only cause a refusal of tasks that are all in
                // time.
                if bands.hold() {
                    assert!(slowly(&tasks, switch, wake_up), "seed {seed}");
                    let mut ordered = tasks.clone();
                    ordered.sort_by_key(Task::min_inter_arrival);
                    let load = CpuLoad::new(&ordered, [], switch).with_wake_up(wake_up);
                    assert!(all_in_time(&load, &mut Steps::default()));
                    held += 1;
                } else {
                    not_held += 1;
                }
            }
            tasks.iter().for_each(|task| bands.remove(task));
            assert!(bands.demands.is_empty() && bands.works.is_empty() && bands.quanta.is_empty());
        }
        assert!(held > 600 && not_held > 100, "{held} {not_held}");
    }

    #[test]
    fn another_task_costs_the_same_beside_few_and_many() {
        let steps_for = |tasks: u64| {
            let mut rng = ChaCha8Rng::seed_from_u64(tasks);
            let mut bands = Bands::new(Service::ZERO);
            let mut steps = Steps::default();
            for _ in 0..tasks {
                let period = Duration::from_nanos(rng.random_range(1_000_000..1_000_000_000));
                let wcet = Service::from_nanos(period.as_nanos() / 2 / tasks);
                let task = Task::new(TaskSpec::periodic("t", period, wcet)).expect("valid");
                assert!(bands.add(&task, &mut steps));
            }
            assert!(bands.hold());
            (Steps::ADMISSION - steps.left()) / tasks
        };
        let [few, many] = [1_000, 64_000].map(steps_for);
        assert!(few > 0 && many <= 2 * few, "{few} steps a task, then {many}");
    }

    #[test]
    fn tasks_that_bands_cannot_prove_are_rejected() {
        let (period, wcet) = (Duration::from_nanos(100), Service::from_nanos(1));
        let spec = || TaskSpec::periodic("t", period, wcet);
        let early = TaskSpec { relative_deadline: Duration::from_nanos(99), ..spec() };
        let jitter = TaskSpec { release_jitter: Duration::from_nanos(1), ..spec() };
        let mut bands = Bands::new(Service::ZERO);
        for spec in [early, jitter] {
            let task = Task::new(spec).expect("valid");
            assert!(!bands.add(&task, &mut Steps::default()));
        }
        let task = Task::new(spec()).expect("valid");
        assert!(!bands.add(&task, &mut Steps::new(0)));
        assert!(bands.works.is_empty() && bands.quanta.is_empty());
        assert!(bands.add(&task, &mut Steps::default()) && bands.hold());
    }
}
