//! The tasks of one CPU, by the cheapest proof that does.
//!
//! 1. Of many tasks in bands ([`Bands`]): at a cost that does not grow with the tasks, and enough up to about two
//!    thirds of a CPU without reservations.
//! 2. One at a time ([`Admission`]): exact, and linear in the tasks. What was proven in bands awaits this proof until
//!    the first request that bands cannot prove.
//!
//! A task that is put back after a refused change awaits it as well: all were in time with it before, so they are now.

use alloc::collections::BTreeMap;

use alloc::vec::Vec;

use punctual_model::{HostProfile, Policy};

use super::UpcallOrder;
use crate::incremental::{Admission, Bands, Denial, TaskId};
use crate::load::{CpuLoad, TaskLoad};
use crate::order::Order;
use crate::policies::{self, Engine};
use crate::ratio::Utilisation;
use crate::reservation::ReservedLoad;
use crate::steps::Steps;

/// So many tasks of a CPU are proven exactly at once, which costs about what bands cost and leaves nothing to be done when
/// bands do not suffice. Fewer in the unit tests, so that small systems are proven both ways.
const FEW: usize = if cfg!(test) { 4 } else { 256 };

/// A task's place among those of its CPU, the most urgent first: a period or a deadline, the entry, the period of the
/// task and its position in the entry.
type Key<Id> = (u64, Id, u64, usize);

/// Who goes first among the tasks of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskOrder {
    /// Those of executors.
    Upcalls(UpcallOrder),
    /// By a policy; where it lets two of them tie, the smaller name.
    By(Policy),
}

/// The tasks of one CPU, and what runs above them all.
#[derive(Clone, Debug)]
pub(super) struct Cpu<Id> {
    order: TaskOrder,
    share_ppm: u64,
    /// All tasks; `None` where bands cannot prove one of them.
    bands: Option<Bands>,
    exact: Admission,
    /// The tasks in `exact`.
    proven: BTreeMap<Key<Id>, TaskId>,
    /// The tasks that are not.
    awaiting: BTreeMap<Key<Id>, TaskLoad>,
}

impl<Id: Copy + Ord> Cpu<Id> {
    pub(super) fn new(order: TaskOrder, host: &HostProfile) -> Self {
        let &HostProfile { context_switch, wake_up, .. } = host;
        let (policy, bands) = match order {
            TaskOrder::Upcalls(UpcallOrder::LevelOrder) => {
                (Policy::Rmdp, Some(Bands::new(context_switch).with_wake_up(wake_up)))
            }
            // The order is ours, and not that of the periods.
            TaskOrder::Upcalls(UpcallOrder::FixedLevel) => (Policy::Fp, None),
            // The same, where there are ties.
            TaskOrder::By(policy) => match policies::of(policy).engine() {
                Engine::FixedPriority => (Policy::Fp, None),
                _ => (policy, None),
            },
        };
        Self {
            order,
            share_ppm: 0,
            bands,
            exact: Admission::new(policy, [], context_switch).with_wake_up(wake_up),
            proven: BTreeMap::new(),
            awaiting: BTreeMap::new(),
        }
    }

    /// Returns what the tasks take together, in parts per million.
    pub(super) fn share_ppm(&self) -> u64 {
        self.share_ppm
    }

    /// Admits all `tasks` of entry `id`, or none: then says which one failed, and why.
    pub(super) fn admit(
        &mut self,
        id: Id,
        tasks: &[TaskLoad],
        share_ppm: u64,
        steps: &mut Steps,
    ) -> Result<(), (usize, Denial)> {
        self.count(tasks);
        let are_many = self.proven.len() + self.awaiting.len() >= FEW;
        let outcome = if are_many && self.bands_prove_all() {
            self.await_proof(id, tasks);
            Ok(())
        } else {
            self.prove_exactly(id, tasks, steps)
        };
        self.share_ppm += share_ppm;
        outcome.inspect_err(|_| self.remove(id, tasks, share_ppm))
    }

    /// Puts back what was removed while all others stayed as they are.
    pub(super) fn put_back(&mut self, id: Id, tasks: &[TaskLoad], share_ppm: u64) {
        self.count(tasks);
        self.await_proof(id, tasks);
        self.share_ppm += share_ppm;
    }

    /// Takes `tasks` of entry `id` out. The others remain in time.
    pub(super) fn remove(&mut self, id: Id, tasks: &[TaskLoad], share_ppm: u64) {
        for (key, task) in keys(self.order, id, tasks).zip(tasks) {
            if let Some(bands) = &mut self.bands {
                bands.remove_load(task);
            }
            self.awaiting.remove(&key);
            if let Some(task) = self.proven.remove(&key) {
                self.exact.remove(task);
            }
        }
        self.share_ppm -= share_ppm;
    }

    /// Admits all `tasks`, each with the name of its entry and in this order, by one full test, or none of them. There
    /// must be none yet, and each must be the only one of its entry.
    pub(super) fn fill(&mut self, tasks: &[(Id, TaskLoad)], steps: &mut Steps) -> bool {
        let loads: Vec<TaskLoad> = tasks.iter().map(|(_, load)| *load).collect();
        let Some(ids) = self.exact.fill(loads, steps) else { return false };
        let keys = tasks.iter().map(|(id, load)| key(self.order, load.period, *id, load, 0));
        self.proven = keys.zip(ids).collect();
        true
    }

    /// Returns what the CPU has to do, but for what awaits its exact proof.
    pub(super) fn load(&self) -> &CpuLoad {
        self.exact.load()
    }

    /// Says whether there are tasks.
    pub(super) fn has_tasks(&self) -> bool {
        !(self.proven.is_empty() && self.awaiting.is_empty())
    }

    /// Returns what runs above all tasks.
    pub(super) fn above(&self) -> &[ReservedLoad] {
        &self.exact.load().reservations
    }

    /// Returns what that takes of the CPU.
    pub(super) fn reserved(&self) -> Utilisation {
        self.exact.load().reserved()
    }

    /// Puts `load` above all tasks if every one of them remains in time.
    pub(super) fn put_above(
        &mut self,
        load: ReservedLoad,
        steps: &mut Steps,
    ) -> Result<(), Denial> {
        self.prove_awaiting(steps)?;
        if self.proven.is_empty() {
            // Nothing can be late.
            self.exact.put_back_above(load);
            return Ok(());
        }
        self.exact.put_above(load, steps)
    }

    /// Has `new` run above all tasks in place of `old`, or changes nothing.
    pub(super) fn exchange_above(
        &mut self,
        old: &[ReservedLoad],
        new: &[ReservedLoad],
        steps: &mut Steps,
    ) -> Result<(), Denial> {
        old.iter().for_each(|load| self.take_from_above(load));
        for (count, load) in new.iter().enumerate() {
            if let Err(denial) = self.put_above(*load, steps) {
                new[..count].iter().for_each(|load| self.take_from_above(load));
                old.iter().for_each(|load| self.put_back_above(*load));
                return Err(denial);
            }
        }
        Ok(())
    }

    /// Takes out what [`Self::put_above`] put there.
    pub(super) fn take_from_above(&mut self, load: &ReservedLoad) {
        let was_there = self.exact.take_from_above(load);
        debug_assert!(was_there, "it was put in");
    }

    /// Puts back what was taken from above while the tasks stayed as they are.
    pub(super) fn put_back_above(&mut self, load: ReservedLoad) {
        self.exact.put_back_above(load);
    }

    fn count(&mut self, tasks: &[TaskLoad]) {
        if let Some(bands) = &mut self.bands
            && !tasks.iter().all(|task| bands.add_load(task, &mut Steps::default()))
        {
            self.bands = None;
        }
    }

    fn bands_prove_all(&self) -> bool {
        // They know of no reservation.
        self.exact.load().reservations.is_empty() && self.bands.as_ref().is_some_and(Bands::hold)
    }

    fn await_proof(&mut self, id: Id, tasks: &[TaskLoad]) {
        self.awaiting.extend(keys(self.order, id, tasks).zip(tasks.iter().copied()));
    }

    /// Admits what awaits its proof, the most urgent first: each is the only one that has to be examined.
    fn prove_awaiting(&mut self, steps: &mut Steps) -> Result<(), Denial> {
        while let Some((&key, &task)) = self.awaiting.first_key_value() {
            self.prove(key, task, steps)?;
            self.awaiting.remove(&key);
        }
        Ok(())
    }

    fn prove_exactly(
        &mut self,
        id: Id,
        tasks: &[TaskLoad],
        steps: &mut Steps,
    ) -> Result<(), (usize, Denial)> {
        // Before the newcomers: they are in time, so only the bound on the analysis can deny them.
        self.prove_awaiting(steps).map_err(|_| (0, Denial::Undecided))?;
        for (at, (key, &task)) in keys(self.order, id, tasks).zip(tasks).enumerate() {
            self.prove(key, task, steps).map_err(|denial| (at, denial))?;
        }
        Ok(())
    }

    fn prove(&mut self, key: Key<Id>, task: TaskLoad, steps: &mut Steps) -> Result<(), Denial> {
        let below = match self.order {
            TaskOrder::Upcalls(UpcallOrder::LevelOrder) => None,
            _ => self.proven.range(key..).next().map(|(_, below)| *below),
        };
        let proven = self.exact.admit_load(task, below, steps)?;
        self.proven.insert(key, proven);
        Ok(())
    }
}

fn keys<Id: Copy>(order: TaskOrder, id: Id, tasks: &[TaskLoad]) -> impl Iterator<Item = Key<Id>> {
    let shortest = tasks.iter().map(|task| task.period).min().unwrap_or(u64::MAX);
    tasks.iter().enumerate().map(move |(at, task)| key(order, shortest, id, task, at))
}

/// Returns the place of the task at position `at` of an entry whose shortest period is `shortest`.
fn key<Id>(order: TaskOrder, shortest: u64, id: Id, task: &TaskLoad, at: usize) -> Key<Id> {
    let first = match order {
        TaskOrder::Upcalls(UpcallOrder::LevelOrder) => task.period,
        TaskOrder::Upcalls(UpcallOrder::FixedLevel) => shortest,
        TaskOrder::By(policy) => match policies::of(policy).order() {
            Order::Period => task.period,
            Order::Deadline => task.deadline,
            Order::File => 0,
        },
    };
    (first, id, task.period, at)
}
