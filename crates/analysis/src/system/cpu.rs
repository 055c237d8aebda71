//! The tasks of one CPU, by the cheapest sufficient proof.
//!
//! 1. Many tasks in bands ([`Bands`]): the cost does not grow with the tasks, and the proof reaches
//!    about two thirds of a CPU without reservations.
//! 2. One task at a time ([`Admission`]): exact, and linear in the tasks. Tasks that were proven in
//!    bands await this proof until the first request that bands cannot prove.
//!
//! A task that is restored after a refused change awaits it as well: all were in time with it
//! before, so they are now.

use alloc::collections::BTreeMap;

use alloc::vec::Vec;

use punctual_model::{HostProfile, Policy};

use super::UpcallOrder;
use super::sums::Sums;
use crate::incremental::{Admission, Bands, Denial, TaskId};
use crate::load::{CpuLoad, TaskLoad};
use crate::policies;
use crate::ratio::Utilisation;
use crate::reservation::ReservedLoad;
use crate::schedulability::{Engine, Order};
use crate::steps::Steps;

/// The number of tasks of a CPU up to which they are proven exactly at once. That costs about as
/// much as bands and leaves no work for the time when bands do not suffice. It is smaller in the
/// unit tests, so that small systems are proven both ways.
const FEW: usize = if cfg!(test) { 4 } else { 256 };

/// The place of a task among those of its CPU, the most urgent first: a period or a deadline, the
/// entry, the period of the task and its position in the entry. A task that has left comes after the
/// tasks that have its name now.
type Key<Id> = (u64, Id, u64, u64);

/// The order of tasks on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskOrder {
    /// The tasks of executors.
    Upcalls(UpcallOrder),
    /// The order of a policy; among equal tasks the smaller name is first.
    By(Policy),
}

/// The tasks of one CPU, and the load above them all.
#[derive(Clone, Debug)]
pub(super) struct Cpu<Id> {
    order: TaskOrder,
    share_ppm: u64,
    /// All tasks; `None` if bands cannot prove one of them.
    bands: Option<Bands>,
    exact: Admission,
    /// The tasks in `exact`.
    proven: BTreeMap<Key<Id>, TaskId>,
    /// The tasks that are not in `exact` yet.
    awaiting: BTreeMap<Key<Id>, TaskLoad>,
    sums: Sums,
}

impl<Id: Copy + Ord> Cpu<Id> {
    pub(super) fn new(order: TaskOrder, host: &HostProfile) -> Self {
        let &HostProfile { context_switch, wake_up, .. } = host;
        let (policy, bands) = match order {
            TaskOrder::Upcalls(UpcallOrder::LevelOrder) => {
                (Policy::Rmdp, Some(Bands::new(context_switch).with_wake_up(wake_up)))
            }
            // The order is set here, and is not that of the periods.
            TaskOrder::Upcalls(UpcallOrder::FixedLevel) => (Policy::Fp, None),
            // Likewise, because ties are broken here.
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
            sums: Sums::default(),
        }
    }

    /// Returns the most work, in nanoseconds, that can be pending while no job is late.
    pub(super) fn pending(&self) -> u64 {
        self.sums.pending()
    }

    /// Returns the most work of all tasks in a window, or `None` beyond 64 bits of jobs.
    pub(super) fn most_in(&self, window: u64) -> Option<u128> {
        let all = self.exact.load().tasks.iter().chain(self.awaiting.values());
        let work = all.map(|task| task.most_in(window)).fold(0, u128::saturating_add);
        (work < u128::MAX).then_some(work)
    }

    /// Returns a time within which the CPU has been idle, if `more` than its tasks can be pending
    /// ([`Sums::idle_within`]).
    pub(super) fn idle_within(&self, more: u64) -> Option<u64> {
        self.sums.idle_within(more, self.above())
    }

    /// Returns the share of all tasks, in parts per million.
    pub(super) fn share_ppm(&self) -> u64 {
        self.share_ppm
    }

    /// Admits all `tasks` of entry `id`, or none. The error has the position of the failed task and
    /// the reason.
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

    /// Restores removed tasks, provided that no others changed meanwhile.
    pub(super) fn put_back(&mut self, id: Id, tasks: &[TaskLoad], share_ppm: u64) {
        self.count(tasks);
        self.await_proof(id, tasks);
        self.share_ppm += share_ppm;
    }

    /// Removes `tasks` of entry `id`. The others remain in time.
    pub(super) fn remove(&mut self, id: Id, tasks: &[TaskLoad], share_ppm: u64) {
        for (key, task) in keys(self.order, id, tasks).zip(tasks) {
            self.remove_one(key, task);
        }
        self.share_ppm -= share_ppm;
    }

    fn remove_one(&mut self, key: Key<Id>, task: &TaskLoad) {
        if let Some(bands) = &mut self.bands {
            bands.remove_load(task);
        }
        self.sums.remove(task);
        self.awaiting.remove(&key);
        if let Some(task) = self.proven.remove(&key) {
            self.exact.remove(task);
        }
    }

    /// Keeps the tasks of entry `id` as tasks that have left; `number` grows with each departure. What
    /// is proven stays so.
    pub(super) fn leave(&mut self, id: Id, tasks: &[TaskLoad], share_ppm: u64, number: u32) {
        let now = keys(self.order, id, tasks);
        for (old, new) in now.zip(leaving(self.order, id, tasks, number)) {
            if let Some(proven) = self.proven.remove(&old) {
                self.proven.insert(new, proven);
            }
            if let Some(awaiting) = self.awaiting.remove(&old) {
                self.awaiting.insert(new, awaiting);
            }
        }
        self.share_ppm -= share_ppm;
    }

    /// Puts `tasks` of entry `id` back as tasks that have left; `number` grows with each departure. All
    /// other tasks are unchanged.
    pub(super) fn put_back_leaving(&mut self, id: Id, tasks: &[TaskLoad], number: u32) {
        self.count(tasks);
        let keys = leaving(self.order, id, tasks, number);
        self.awaiting.extend(keys.zip(tasks.iter().copied()));
    }

    /// Takes out the tasks that [`Self::leave`] or [`Self::put_back_leaving`] keeps.
    pub(super) fn remove_leaving(&mut self, id: Id, tasks: &[TaskLoad], number: u32) {
        for (key, task) in leaving(self.order, id, tasks, number).zip(tasks) {
            self.remove_one(key, task);
        }
    }

    /// Admits all `tasks`, each with the name of its entry and in this order, by one full test, or
    /// none of them. There must be no tasks yet, and each must be the only one of its entry.
    pub(super) fn fill(&mut self, tasks: &[(Id, TaskLoad)], steps: &mut Steps) -> bool {
        let loads: Vec<TaskLoad> = tasks.iter().map(|(_, load)| *load).collect();
        let Some(ids) = self.exact.fill(loads, steps) else { return false };
        let keys = tasks.iter().map(|(id, load)| key(self.order, load.period, *id, load, 0));
        self.proven = keys.zip(ids).collect();
        tasks.iter().for_each(|(_, task)| self.sums.add(task));
        true
    }

    /// Returns the load of the CPU, without the tasks that await their exact proof.
    pub(super) fn load(&self) -> &CpuLoad {
        self.exact.load()
    }

    /// Returns whether there are tasks.
    pub(super) fn has_tasks(&self) -> bool {
        !(self.proven.is_empty() && self.awaiting.is_empty())
    }

    /// Returns the load above all tasks.
    pub(super) fn above(&self) -> &[ReservedLoad] {
        &self.exact.load().reservations
    }

    /// Returns the utilisation of the load above all tasks.
    pub(super) fn reserved(&self) -> Utilisation {
        self.exact.load().reserved()
    }

    /// Puts `load` above all tasks if every one of them remains in time.
    pub(super) fn put_above(
        &mut self,
        load: ReservedLoad,
        steps: &mut Steps,
    ) -> Result<(), Denial> {
        self.insert_awaiting();
        if self.proven.is_empty() {
            // No task can be late.
            self.exact.put_back_above(load);
            return Ok(());
        }
        self.exact.put_above(load, steps)
    }

    /// Replaces `old` by `new` above all tasks, or changes nothing.
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

    /// Removes a load that [`Self::put_above`] added.
    pub(super) fn take_from_above(&mut self, load: &ReservedLoad) {
        let was_there = self.exact.take_from_above(load);
        debug_assert!(was_there, "it was put in");
    }

    /// Restores a removed load above the tasks, provided that the tasks did not change meanwhile.
    pub(super) fn put_back_above(&mut self, load: ReservedLoad) {
        self.exact.put_back_above(load);
    }

    fn count(&mut self, tasks: &[TaskLoad]) {
        tasks.iter().for_each(|task| self.sums.add(task));
        if let Some(bands) = &mut self.bands
            && !tasks.iter().all(|task| bands.add_load(task, &mut Steps::default()))
        {
            self.bands = None;
        }
    }

    fn bands_prove_all(&self) -> bool {
        // Bands do not consider reservations.
        self.exact.load().reservations.is_empty() && self.bands.as_ref().is_some_and(Bands::hold)
    }

    fn await_proof(&mut self, id: Id, tasks: &[TaskLoad]) {
        self.awaiting.extend(keys(self.order, id, tasks).zip(tasks.iter().copied()));
    }

    /// Hands the tasks that await their exact proof over to it, the most urgent first. They are in
    /// time, so each is examined only once something changes for the worse.
    fn insert_awaiting(&mut self) {
        while let Some((key, task)) = self.awaiting.pop_first() {
            let proven = self.exact.insert_load(task, self.below(key));
            self.proven.insert(key, proven);
        }
    }

    fn prove_exactly(
        &mut self,
        id: Id,
        tasks: &[TaskLoad],
        steps: &mut Steps,
    ) -> Result<(), (usize, Denial)> {
        self.insert_awaiting();
        for (at, (key, &task)) in keys(self.order, id, tasks).zip(tasks).enumerate() {
            let proven = self.exact.admit_load(task, self.below(key), steps);
            self.proven.insert(key, proven.map_err(|denial| (at, denial))?);
        }
        Ok(())
    }

    /// Returns the task directly below the place of a new one, if the order is set here.
    fn below(&self, key: Key<Id>) -> Option<TaskId> {
        match self.order {
            TaskOrder::Upcalls(UpcallOrder::LevelOrder) => None,
            _ => self.proven.range(key..).next().map(|(_, below)| *below),
        }
    }
}

fn keys<Id: Copy>(order: TaskOrder, id: Id, tasks: &[TaskLoad]) -> impl Iterator<Item = Key<Id>> {
    let shortest = tasks.iter().map(|task| task.period).min().unwrap_or(u64::MAX);
    tasks.iter().zip(0..).map(move |(task, at)| key(order, shortest, id, task, at))
}

/// Returns the places of the tasks of an entry that has left as the one with this number.
fn leaving<Id: Copy>(
    order: TaskOrder,
    id: Id,
    tasks: &[TaskLoad],
    number: u32,
) -> impl Iterator<Item = Key<Id>> {
    // An entry has fewer than 2³² tasks.
    let behind = (u64::from(u32::MAX - number) + 1) << 32;
    keys(order, id, tasks).map(move |(first, id, period, at)| (first, id, period, behind | at))
}

/// Returns the place of the task at position `at` of an entry whose shortest period is `shortest`.
fn key<Id>(order: TaskOrder, shortest: u64, id: Id, task: &TaskLoad, at: u64) -> Key<Id> {
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
