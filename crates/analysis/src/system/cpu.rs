//! The tasks of one CPU, by the cheapest proof that does.
//!
//! 1. Of many tasks in bands ([`Bands`]): at a cost that does not grow with the tasks, and enough up to about two
//!    thirds of a CPU without reservations.
//! 2. One at a time ([`Admission`]): exact, and linear in the tasks. What was proven in bands awaits this proof until
//!    the first request that bands cannot prove.
//!
//! A task that is put back after a refused change awaits it as well: all were in time with it before, so they are now.

use alloc::collections::BTreeMap;

use punctual_model::{HostProfile, Policy, Reservation};

use super::UpcallOrder;
use crate::incremental::{Admission, Bands, Denial, TaskId};
use crate::load::TaskLoad;
use crate::steps::Steps;

/// So many tasks of a CPU are proven exactly at once, which costs about what bands cost and leaves nothing to be done when
/// bands do not suffice. Fewer in the unit tests, so that small systems are proven both ways.
const FEW: usize = if cfg!(test) { 4 } else { 256 };

/// A task's place among those of its CPU, the most urgent first: a period, the entry, the period of the task and its
/// position in the entry.
type Key<Id> = (u64, Id, u64, usize);

#[derive(Clone, Debug)]
pub(super) struct Cpu<Id> {
    order: UpcallOrder,
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
    pub(super) fn new(order: UpcallOrder, host: &HostProfile) -> Self {
        let &HostProfile { context_switch, wake_up, .. } = host;
        let (policy, bands) = match order {
            UpcallOrder::Ceiling => {
                (Policy::Rmdp, Some(Bands::new(context_switch).with_wake_up(wake_up)))
            }
            // The order is ours, and not that of the periods.
            UpcallOrder::Level => (Policy::Fp, None),
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

    /// Puts `reservation` above all tasks if every one of them remains in time.
    pub(super) fn reserve(
        &mut self,
        reservation: Reservation,
        steps: &mut Steps,
    ) -> Result<(), Denial> {
        self.prove_awaiting(steps)?;
        self.exact.reserve(reservation, steps)
    }

    /// Takes out a reservation that [`Self::reserve`] put in.
    pub(super) fn unreserve(&mut self, reservation: Reservation) {
        let was_there = self.exact.unreserve(reservation);
        debug_assert!(was_there, "it was put in");
    }

    /// Puts back a reservation that was taken out while the tasks stayed as they are.
    pub(super) fn put_back_reservation(&mut self, reservation: Reservation) {
        self.exact.put_back(reservation);
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
            UpcallOrder::Ceiling => None,
            UpcallOrder::Level => self.proven.range(key..).next().map(|(_, below)| *below),
        };
        let proven = self.exact.admit_load(task, below, steps)?;
        self.proven.insert(key, proven);
        Ok(())
    }
}

fn keys<Id: Copy>(order: UpcallOrder, id: Id, tasks: &[TaskLoad]) -> impl Iterator<Item = Key<Id>> {
    let shortest = tasks.iter().map(|task| task.period).min().unwrap_or(u64::MAX);
    tasks.iter().enumerate().map(move |(at, task)| match order {
        UpcallOrder::Ceiling => (task.period, id, task.period, at),
        UpcallOrder::Level => (shortest, id, task.period, at),
    })
}
