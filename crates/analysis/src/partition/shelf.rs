//! CPUs while they are being filled.

use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use punctual_model::{Contract, HostProfile, Policy};

use super::{Fit, Placement};
use crate::load::{CpuLoad, TaskLoad};
use crate::policies;
use crate::ratio::{self, Ratio, Utilisation};
use crate::steps::Steps;

/// All CPUs of a contract and the tasks to be placed on them.
#[derive(Clone, Debug)]
pub(super) struct Shelves {
    policy: Policy,
    shelves: Vec<Shelf>,
    tasks: Vec<TaskLoad>,
    /// How urgent each task is, 0 the most.
    rank: Vec<usize>,
    /// The positions of the tasks, the largest share first.
    pub(super) largest_first: Vec<usize>,
    cpus: Vec<Option<u16>>,
}

/// One CPU while it is being filled.
#[derive(Clone, Debug)]
struct Shelf {
    used: Utilisation,
    load: CpuLoad,
    /// The positions of the tasks of `load`.
    tasks: Vec<usize>,
}

impl Shelves {
    /// Empty of tasks.
    pub(super) fn new(placement: &Placement, contract: &Contract, host: &HostProfile) -> Self {
        let empty = |cpu| {
            let load = placement.load_of(contract, host, cpu, &[]);
            Shelf { used: load.reserved(), load, tasks: Vec::new() }
        };
        let mut rank = vec![0; contract.tasks.len()];
        for (position, &at) in placement.order.iter().enumerate() {
            rank[at] = position;
        }
        let tasks: Vec<TaskLoad> =
            contract.tasks.iter().map(|task| TaskLoad::new(task, host.context_switch)).collect();
        let share = |at: usize| ratio::share(tasks[at].work, tasks[at].period);
        let mut largest_first: Vec<usize> = (0..tasks.len()).collect();
        largest_first.sort_by_key(|&at| Reverse(share(at)));
        Self {
            policy: contract.policy,
            shelves: (0..contract.cpus).map(empty).collect(),
            cpus: vec![None; tasks.len()],
            tasks,
            rank,
            largest_first,
        }
    }

    pub(super) fn into_cpus(self) -> Vec<Option<u16>> {
        self.cpus
    }

    /// Places each task by `fit`; whether all found room.
    pub(super) fn fill(&mut self, fit: Fit, steps: &mut Steps) -> bool {
        let mut all = true;
        let mut order: Vec<usize> = (0..self.shelves.len()).collect();
        for position in 0..self.largest_first.len() {
            let at = self.largest_first[position];
            // Stable: of equally full ones the first.
            match fit {
                Fit::First => {}
                Fit::Best => order.sort_by_key(|&cpu| Reverse(self.shelves[cpu].used.below())),
                Fit::Worst => order.sort_by_key(|&cpu| self.shelves[cpu].used.below()),
            }
            all &= order.iter().any(|&cpu| self.put(at, cpu, steps));
        }
        all
    }

    /// Puts the task `at` on `cpu` if all tasks there remain in time.
    pub(super) fn put(&mut self, at: usize, cpu: usize, steps: &mut Steps) -> bool {
        let (shelf, task) = (&mut self.shelves[cpu], self.tasks[at]);
        let mut used = shelf.used;
        used.add(task.work, task.period);
        if used.exceeds_one() {
            return false;
        }
        let rank = &self.rank;
        let position = shelf.tasks.partition_point(|&other| rank[other] < rank[at]);
        shelf.load.tasks.insert(position, task);
        let policy = policies::of(self.policy);
        let fits = (used.above() <= Ratio::LN_2 && policy.fits_at_a_glance(&shelf.load))
            || policy.fits(&shelf.load, steps);
        if fits {
            shelf.used = used;
            shelf.tasks.insert(position, at);
            self.cpus[at] = Some(cpu as u16);
        } else {
            shelf.load.tasks.remove(position);
        }
        fits
    }

    /// Takes the task `at` from `cpu`, where it is, and gives back what was used before it came.
    pub(super) fn take_back(&mut self, at: usize, cpu: usize, used: Utilisation) {
        let shelf = &mut self.shelves[cpu];
        if let Some(position) = shelf.tasks.iter().position(|&other| other == at) {
            shelf.tasks.remove(position);
            shelf.load.tasks.remove(position);
        }
        shelf.used = used;
        self.cpus[at] = None;
    }

    pub(super) fn count(&self) -> usize {
        self.shelves.len()
    }

    pub(super) fn used(&self, cpu: usize) -> Utilisation {
        self.shelves[cpu].used
    }

    /// Whether `cpu` holds no task and an earlier one like it holds none either: then what fits
    /// here fits there, and there it was tried.
    pub(super) fn repeats_an_earlier(&self, cpu: usize) -> bool {
        let (before, here) = self.shelves.split_at(cpu);
        here[0].tasks.is_empty()
            && before.iter().any(|other| {
                other.tasks.is_empty() && other.load.reservations == here[0].load.reservations
            })
    }
}
