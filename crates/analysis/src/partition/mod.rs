//! Which entry runs on which CPU.
//!
//! Reservations go first, because they run above all tasks: first fit, largest share first. Then
//! the tasks, largest share first, by [`Fit`]s one after the other; where none of them places all
//! and the system is small, every partition is tried (`exhaustive`). The handlers of the channels
//! share one link, so they are one piece, on the last CPU: tasks fill the others before it. On
//! one CPU there is nothing to choose.

mod exhaustive;
mod shelf;

use alloc::vec;
use alloc::vec::Vec;

use punctual_model::{Contract, HostProfile};

use self::shelf::Shelves;
use crate::load::CpuLoad;
use crate::order::by_priority;
use crate::reservation::ReservedLoad;
use crate::steps::Steps;
use crate::timetables::Timetables;

/// Which of the CPUs with room for a task takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The first.
    First,
    /// The one with the least left: keeps room for what is large.
    Best,
    /// The one with the most left: spreads.
    Worst,
}

impl Fit {
    const FAMILY: [Self; 3] = [Self::First, Self::Best, Self::Worst];
}

/// How the tasks found their CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// There is one CPU.
    OneCpu,
    /// All placed by this rule, largest share first.
    By(Fit),
    /// All placed; no rule of the family did it.
    Exhaustively,
    /// Not all are placed, and no partition exists that passes the deciding test.
    NoneExists,
    /// Not all are placed, and not every partition was tried.
    NotFound,
}

/// A CPU for every entry, by position in the contract; `None` where it fits on none.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) task_cpus: Vec<Option<u16>>,
    pub(crate) reservation_cpus: Vec<Option<u16>>,
    pub(crate) how: How,
    /// What the handlers of the channels take of the last CPU.
    server: Vec<ReservedLoad>,
    pub(crate) timetables: Timetables,
    /// The positions of all tasks, the most urgent first.
    order: Vec<usize>,
}

impl Placement {
    /// The positions of the tasks on `cpu`, the most urgent first.
    pub(crate) fn tasks_on(&self, cpu: u16) -> impl Iterator<Item = usize> {
        self.order.iter().copied().filter(move |&at| self.task_cpus[at] == Some(cpu))
    }

    /// What `cpu` has to do: its tasks, the handlers if they are there, the slots of its timetable, and whatever
    /// of the other reservations may come there. Linux schedules SCHED_DEADLINE over all CPUs of a root domain
    /// and nothing pins a reservation to its CPU yet, so that is every one of them.
    pub(crate) fn load(&self, contract: &Contract, host: &HostProfile, cpu: u16) -> CpuLoad {
        let tasks: Vec<usize> = self.tasks_on(cpu).collect();
        self.load_of(contract, host, cpu, &tasks)
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
        let load = self.load_of(contract, host, cpu, &tasks);
        (tasks, load)
    }

    /// The positions of the reservations on `cpu`.
    pub(crate) fn reservations_on(&self, cpu: u16) -> impl Iterator<Item = usize> {
        (0..self.reservation_cpus.len()).filter(move |&at| self.reservation_cpus[at] == Some(cpu))
    }

    fn load_of(
        &self,
        contract: &Contract,
        host: &HostProfile,
        cpu: u16,
        tasks: &[usize],
    ) -> CpuLoad {
        let mut load = CpuLoad::new(
            tasks.iter().map(|&at| &contract.tasks[at]),
            self.timetables.others(contract),
            host.context_switch,
        )
        .with_wake_up(host.wake_up);
        let slots = self.timetables.on(cpu).map(|slots| ReservedLoad::slots(slots.taken));
        load.reservations.extend(slots);
        if cpu + 1 == contract.cpus {
            load.reservations.extend(&self.server);
        }
        load
    }
}

/// Places every entry it can. `server`: what the handlers of the channels take.
pub(crate) fn place(
    contract: &Contract,
    host: &HostProfile,
    server: Vec<ReservedLoad>,
    timetables: Timetables,
    steps: &mut Steps,
) -> Placement {
    let order = by_priority(contract.policy, &contract.tasks);
    let on_one = |count: usize| vec![(contract.cpus == 1).then_some(0); count];
    let mut placement = Placement {
        task_cpus: on_one(contract.tasks.len()),
        reservation_cpus: on_one(contract.reservations.len()),
        how: How::OneCpu,
        server,
        timetables,
        order,
    };
    let slots = placement.reservation_cpus.iter_mut().zip(&placement.timetables.slots);
    for (cpu, slots) in slots {
        *cpu = slots.map_or(*cpu, |slots| Some(slots.cpu));
    }
    if contract.cpus > 1 {
        place_reservations(&mut placement, contract, host);
        place_tasks(&mut placement, contract, host, steps);
    }
    placement
}

fn place_reservations(placement: &mut Placement, contract: &Contract, host: &HostProfile) {
    let ppm = |at: usize| contract.reservations[at].reservation.utilisation_ppm();
    let beside = |cpu| host.reservable_ppm.saturating_sub(placement.timetables.ppm_on(cpu));
    let mut left: Vec<u64> = (0..contract.cpus).map(beside).collect();
    let is_free = |at: &usize| placement.timetables.slots[*at].is_none();
    let mut largest_first: Vec<usize> = (0..contract.reservations.len()).filter(is_free).collect();
    largest_first.sort_by_key(|&at| core::cmp::Reverse(ppm(at)));
    for at in largest_first {
        if let Some(cpu) = left.iter().position(|&left| ppm(at) <= left) {
            left[cpu] -= ppm(at);
            placement.reservation_cpus[at] = Some(cpu as u16);
        }
    }
}

/// Out of steps, only what fits at a glance is placed. What is placed will be judged again.
fn place_tasks(
    placement: &mut Placement,
    contract: &Contract,
    host: &HostProfile,
    steps: &mut Steps,
) {
    let mut first = None;
    for fit in Fit::FAMILY {
        let mut shelves = Shelves::new(placement, contract, host);
        let mut part = steps.half();
        let placed = shelves.fill(fit, &mut part);
        steps.put_back(part);
        if placed {
            placement.how = How::By(fit);
            placement.task_cpus = shelves.into_cpus();
            return;
        }
        first.get_or_insert(shelves);
    }
    let empty = Shelves::new(placement, contract, host);
    let mut part = steps.half();
    let found = exhaustive::search(empty, &mut part);
    steps.put_back(part);
    let (how, cpus) = match found {
        Ok(Some(full)) => (How::Exhaustively, Some(full.into_cpus())),
        Ok(None) => (How::NoneExists, None),
        Err(exhaustive::NotSearched) => (How::NotFound, None),
    };
    placement.how = how;
    if let Some(cpus) = cpus.or_else(|| first.map(Shelves::into_cpus)) {
        placement.task_cpus = cpus;
    }
}
