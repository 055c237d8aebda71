//! EDF: the tasks in no order, and blocks of the lines above their demand.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use punctual_model::Duration;

use super::blocks::{Blocks, Stretch};
use super::line::{Line, ONE};
use super::{Denial, TaskId};
use crate::edf::demand::{
    DemandVerdict, busy_period_up_to, demand, last_deadline_before, processor_demand,
};
use crate::edf::response_time;
use crate::fixed_priority::ResponseTime;
use crate::load::{CpuLoad, Granularity, TaskLoad};
use crate::reservation::ReservedLoad;
use crate::steps::Steps;

/// With more tasks and reservations than this, the sums might overflow, and the full test is used
/// each time.
const MOST_TASKS: usize = 1 << 20;

#[derive(Clone, Debug)]
pub(super) struct EarliestDeadline {
    /// In no order: no test needs one, and so nothing moves when a task is removed.
    load: CpuLoad,
    /// The name of the task at the same position.
    ids: Vec<TaskId>,
    positions: BTreeMap<TaskId, usize>,
    blocks: Blocks,
    /// The sum of the lines of all tasks and reservations.
    total: Line,
}

impl EarliestDeadline {
    pub(super) fn new(load: CpuLoad) -> Self {
        let total = Line::of_reservations(&load.reservations);
        let (ids, positions) = (Vec::new(), BTreeMap::new());
        Self { load, ids, positions, blocks: Blocks::new(), total }
    }

    pub(super) fn load(&self) -> &CpuLoad {
        &self.load
    }

    pub(super) fn load_mut(&mut self) -> &mut CpuLoad {
        &mut self.load
    }

    pub(super) fn id(&self, at: usize) -> TaskId {
        self.ids[at]
    }

    /// Names all tasks of the load, which were found to be in time.
    pub(super) fn name_all(&mut self, ids: &[TaskId]) {
        self.ids = ids.to_vec();
        self.positions = ids.iter().copied().zip(0..).collect();
        for (task, &id) in self.load.tasks.iter().zip(ids) {
            let line = Line::of_task(task);
            self.total.add(line);
            self.blocks.insert(id, task, line);
        }
    }

    pub(super) fn admit(
        &mut self,
        id: TaskId,
        task: TaskLoad,
        steps: &mut Steps,
    ) -> Result<(), Denial> {
        steps.take(1)?;
        if task.work > task.period {
            return Err(Denial::Overload { task: None });
        }
        self.insert(id, task);
        let verdict = self.verdict(steps);
        if verdict.is_err() {
            self.remove(id);
        }
        verdict
    }

    /// Inserts `task`, with which all tasks are known to be in time or are examined next.
    pub(super) fn insert(&mut self, id: TaskId, task: TaskLoad) {
        let line = Line::of_task(&task);
        self.total.add(line);
        self.blocks.insert(id, &task, line);
        self.positions.insert(id, self.ids.len());
        self.ids.push(id);
        self.load.tasks.push(task);
    }

    /// Takes a task out. Returns false if it is not there.
    pub(super) fn remove(&mut self, id: TaskId) -> bool {
        let Some(at) = self.positions.remove(&id) else { return false };
        let task = self.load.tasks.swap_remove(at);
        self.ids.swap_remove(at);
        if let Some(&moved) = self.ids.get(at) {
            self.positions.insert(moved, at);
        }
        self.total.subtract(self.blocks.remove(id, &task));
        true
    }

    pub(super) fn reserve(
        &mut self,
        reservation: ReservedLoad,
        steps: &mut Steps,
    ) -> Result<(), Denial> {
        steps.take(1)?;
        let before = self.load.reservations.clone();
        self.put_back(reservation);
        let verdict = self.verdict(steps);
        if verdict.is_err() {
            let tried = core::mem::replace(&mut self.load.reservations, before);
            self.replace_line_of(&tried);
        }
        verdict
    }

    /// Restores a reservation beneath which all tasks were in time.
    pub(super) fn put_back(&mut self, reservation: ReservedLoad) {
        let before = self.load.reservations.clone();
        self.load.reserve(reservation);
        self.replace_line_of(&before);
    }

    /// Takes a reservation out. Returns false if it is not there.
    pub(super) fn unreserve(&mut self, reservation: &ReservedLoad) -> bool {
        let before = self.load.reservations.clone();
        let was_there = self.load.unreserve(reservation);
        self.replace_line_of(&before);
        was_there
    }

    /// Counts the current reservations instead of those `before`.
    fn replace_line_of(&mut self, before: &[ReservedLoad]) {
        self.total.subtract(Line::of_reservations(before));
        self.total.add(Line::of_reservations(&self.load.reservations));
    }

    fn verdict(&self, steps: &mut Steps) -> Result<(), Denial> {
        // Rounding up may raise a slope below one to one.
        if self.total.slope >= ONE || self.ids.len() + self.load.reservations.len() > MOST_TASKS {
            return self.full_verdict(steps);
        }
        let stretches = self.blocks.unproven_stretches(self.total, self.load.wake_up, steps);
        let Ok(stretches) = stretches else { return self.full_verdict(steps) };
        for stretch in stretches {
            self.examine(&stretch, steps)?;
        }
        Ok(())
    }

    fn full_verdict(&self, steps: &mut Steps) -> Result<(), Denial> {
        match processor_demand(&self.load, steps) {
            DemandVerdict::Fits => Ok(()),
            DemandVerdict::Exceeds { window, by, .. } => Err(Denial::Demand { window, by }),
            DemandVerdict::Overload => Err(Denial::Overload { task: None }),
            DemandVerdict::Undecided => Err(Denial::Undecided),
        }
    }

    /// Runs QPA from the end of the stretch to its start, as `edf::demand` does from the horizon.
    fn examine(&self, stretch: &Stretch, steps: &mut Steps) -> Result<(), Denial> {
        let &Stretch { start, end, blocking, last } = stretch;
        let mut before = end;
        if last {
            // If a deadline beyond a busy period is missed, one in it is missed too. The busy
            // period counts all quanta.
            let busy = busy_period_up_to(end, &self.load, self.load.longest_blocking(), steps)?;
            before = before.min(busy.saturating_add(1));
        }
        while let Some((t, _)) = last_deadline_before(&self.load, before, steps)? {
            if t < start {
                break;
            }
            let demand = demand(&self.load, t, blocking, steps)?;
            if demand > t {
                let window = Duration::from_nanos(t);
                return Err(Denial::Demand { window, by: Duration::from_nanos(demand - t) });
            }
            before = demand;
        }
        Ok(())
    }

    pub(super) fn response_times(&self, steps: &mut Steps) -> Vec<ResponseTime> {
        response_time::response_times(&self.load, Granularity::Continuous, steps)
    }

    /// Asserts that the kept sums, blocks and positions match the tasks.
    #[cfg(test)]
    pub(super) fn assert_kept(&self) {
        let mut anew = Self::new(CpuLoad { tasks: Vec::new(), ..self.load.clone() });
        self.load.tasks.iter().for_each(|task| anew.total.add(Line::of_task(task)));
        assert_eq!(self.total, anew.total);
        self.blocks.assert_kept(&self.load.tasks, &self.ids);
        let positions: Vec<_> = self.ids.iter().copied().zip(0..).collect();
        assert_eq!(self.positions, positions.into_iter().collect());
    }
}
