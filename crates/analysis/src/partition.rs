//! Which entry runs on which CPU.
//!
//! First fit, largest share first (a heuristic: it may miss a partition that exists). Reservations
//! go first, because they run above all tasks. On one CPU there is nothing to choose.

use alloc::vec;
use alloc::vec::Vec;

use punctual_model::{Contract, HostProfile};

use crate::judge;
use crate::load::{CpuLoad, TaskLoad};
use crate::order::by_priority;
use crate::ratio::{self, Ratio, Utilisation};
use crate::steps::Steps;

/// A CPU for every entry, by position in the contract; `None` where it fits on none.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) task_cpus: Vec<Option<u16>>,
    pub(crate) reservation_cpus: Vec<Option<u16>>,
    /// The positions of all tasks, the most urgent first.
    order: Vec<usize>,
}

impl Placement {
    /// The positions of the tasks on `cpu`, the most urgent first.
    pub(crate) fn tasks_on(&self, cpu: u16) -> impl Iterator<Item = usize> {
        self.order.iter().copied().filter(move |&at| self.task_cpus[at] == Some(cpu))
    }

    /// What `cpu` has to do: its tasks, and whatever of the reservations may come there. Linux
    /// schedules SCHED_DEADLINE over all CPUs of a root domain and nothing pins a reservation to
    /// its CPU yet, so that is every one of them.
    pub(crate) fn load(&self, contract: &Contract, host: &HostProfile, cpu: u16) -> CpuLoad {
        let tasks: Vec<usize> = self.tasks_on(cpu).collect();
        cpu_load(contract, host, &tasks)
    }

    /// What `cpu` would have to do with `task` on it too, and who that is, the most urgent first.
    pub(crate) fn load_with(
        &self,
        contract: &Contract,
        host: &HostProfile,
        cpu: u16,
        task: usize,
    ) -> (Vec<usize>, CpuLoad) {
        let here = |&at: &usize| at == task || self.task_cpus[at] == Some(cpu);
        let tasks: Vec<usize> = self.order.iter().copied().filter(here).collect();
        let load = cpu_load(contract, host, &tasks);
        (tasks, load)
    }

    /// The positions of the reservations on `cpu`.
    pub(crate) fn reservations_on(&self, cpu: u16) -> impl Iterator<Item = usize> {
        (0..self.reservation_cpus.len()).filter(move |&at| self.reservation_cpus[at] == Some(cpu))
    }
}

fn cpu_load(contract: &Contract, host: &HostProfile, tasks: &[usize]) -> CpuLoad {
    CpuLoad::new(
        tasks.iter().map(|&at| &contract.tasks[at]),
        contract.reservations.iter().map(|named| named.reservation),
        host.context_switch,
    )
}

/// Places every entry it can.
pub(crate) fn place(contract: &Contract, host: &HostProfile, steps: &mut Steps) -> Placement {
    let order = by_priority(contract.policy, &contract.tasks);
    let on_one = |count: usize| vec![(contract.cpus == 1).then_some(0); count];
    let mut placement = Placement {
        task_cpus: on_one(contract.tasks.len()),
        reservation_cpus: on_one(contract.reservations.len()),
        order,
    };
    if contract.cpus > 1 {
        place_reservations(&mut placement, contract, host);
        // Out of steps, only what fits at a glance is placed. What is placed will be judged again.
        place_tasks(&mut placement, contract, host, &mut steps.half());
    }
    placement
}

fn place_reservations(placement: &mut Placement, contract: &Contract, host: &HostProfile) {
    let ppm = |at: usize| contract.reservations[at].reservation.utilisation_ppm();
    let mut left = vec![host.reservable_ppm; usize::from(contract.cpus)];
    let mut largest_first: Vec<usize> = (0..contract.reservations.len()).collect();
    largest_first.sort_by_key(|&at| core::cmp::Reverse(ppm(at)));
    for at in largest_first {
        if let Some(cpu) = left.iter().position(|&left| ppm(at) <= left) {
            left[cpu] -= ppm(at);
            placement.reservation_cpus[at] = Some(cpu as u16);
        }
    }
}

fn place_tasks(
    placement: &mut Placement,
    contract: &Contract,
    host: &HostProfile,
    steps: &mut Steps,
) {
    let mut cpus: Vec<Shelf> = (0..contract.cpus)
        .map(|cpu| {
            let load = placement.load(contract, host, cpu);
            Shelf { used: load.reserved(), load, tasks: Vec::new() }
        })
        .collect();
    let mut rank = vec![0; contract.tasks.len()];
    for (position, &at) in placement.order.iter().enumerate() {
        rank[at] = position;
    }
    let loads: Vec<TaskLoad> =
        contract.tasks.iter().map(|task| TaskLoad::new(task, host.context_switch)).collect();
    let share = |at: usize| ratio::share(loads[at].work, loads[at].period);
    let mut largest_first: Vec<usize> = (0..loads.len()).collect();
    largest_first.sort_by_key(|&at| core::cmp::Reverse(share(at)));
    for at in largest_first {
        placement.task_cpus[at] = (0..contract.cpus)
            .find(|&cpu| cpus[usize::from(cpu)].take(contract, at, loads[at], &rank, steps));
    }
}

/// One CPU while it is being filled.
struct Shelf {
    used: Utilisation,
    load: CpuLoad,
    /// The positions of the tasks of `load`.
    tasks: Vec<usize>,
}

impl Shelf {
    /// Takes the task `at` if all tasks here remain in time.
    fn take(
        &mut self,
        contract: &Contract,
        at: usize,
        task: TaskLoad,
        rank: &[usize],
        steps: &mut Steps,
    ) -> bool {
        let mut used = self.used;
        used.add(task.work, task.period);
        if used.exceeds_one() {
            return false;
        }
        let position = self.tasks.partition_point(|&other| rank[other] < rank[at]);
        self.load.tasks.insert(position, task);
        let fits = (used.above() <= Ratio::LN_2
            && judge::fits_at_a_glance(contract.policy, &self.load))
            || judge::fits(contract.policy, &self.load, steps);
        if fits {
            self.used = used;
            self.tasks.insert(position, at);
        } else {
            self.load.tasks.remove(position);
        }
        fits
    }
}
