//! Policies without a known shortcut: the full test is run each time.

use alloc::vec::Vec;

use punctual_model::{Duration, Policy};

use super::{Denial, TaskId};
use crate::fixed_priority::ResponseTime;
use crate::load::{CpuLoad, TaskLoad};
use crate::policies;
use crate::reservation::ReservedLoad;
use crate::steps::Steps;

#[derive(Clone, Debug)]
pub(super) struct FullTest {
    policy: Policy,
    load: CpuLoad,
    ids: Vec<TaskId>,
}

impl FullTest {
    pub(super) fn new(policy: Policy, load: CpuLoad) -> Self {
        Self { policy, load, ids: Vec::new() }
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
    }

    /// Inserts `task` at a position, or at the end, if all tasks remain in time.
    pub(super) fn admit(
        &mut self,
        at: Option<usize>,
        id: TaskId,
        task: TaskLoad,
        steps: &mut Steps,
    ) -> Result<(), Denial> {
        let at = self.insert(at, id, task);
        let in_time = policies::of(self.policy).fits(&self.load, steps);
        let denial = if in_time { None } else { Some(self.why(Some(id), steps)) };
        denial.map_or(Ok(()), |denial| {
            self.load.tasks.remove(at);
            self.ids.remove(at);
            Err(denial)
        })
    }

    /// Inserts `task` at a position, or at the end, and returns where.
    pub(super) fn insert(&mut self, at: Option<usize>, id: TaskId, task: TaskLoad) -> usize {
        let at = at.unwrap_or(self.ids.len());
        self.load.tasks.insert(at, task);
        self.ids.insert(at, id);
        at
    }

    pub(super) fn reserve(
        &mut self,
        reservation: ReservedLoad,
        steps: &mut Steps,
    ) -> Result<(), Denial> {
        let before = self.load.reservations.clone();
        self.load.reserve(reservation);
        let in_time = policies::of(self.policy).fits(&self.load, steps);
        let denial = if in_time { None } else { Some(self.why(None, steps)) };
        denial.map_or(Ok(()), |denial| {
            self.load.reservations = before;
            Err(denial)
        })
    }

    /// Restores a reservation beneath which all tasks were in time.
    pub(super) fn put_back(&mut self, reservation: ReservedLoad) {
        self.load.reserve(reservation);
    }

    /// Takes a reservation out. Returns false if it is not there.
    pub(super) fn unreserve(&mut self, reservation: &ReservedLoad) -> bool {
        self.load.unreserve(reservation)
    }

    /// Returns why the tasks are not all in time, without naming `asked`.
    fn why(&self, asked: Option<TaskId>, steps: &mut Steps) -> Denial {
        let judgement = policies::of(self.policy).judge(&self.load, steps, &mut Steps::new(0));
        if self.ids.is_empty() {
            return Denial::Overload { task: None };
        }
        let Some(miss) = judgement.miss else { return Denial::Undecided };
        let task = (asked != Some(self.ids[miss.task])).then(|| self.ids[miss.task]);
        let relative_deadline = Duration::from_nanos(self.load.tasks[miss.task].deadline);
        match judgement.bounds[miss.task] {
            Some(bound) if bound > relative_deadline => {
                let response_time = ResponseTime::AtMost(bound);
                Denial::Late { task, response_time, relative_deadline }
            }
            _ if self.load.utilisation().exceeds_one() => Denial::Overload { task: None },
            _ if steps.left() == 0 => Denial::Undecided,
            _ => Denial::NotProven { task },
        }
    }

    /// Takes a task out. Returns false if it is not there.
    pub(super) fn remove(&mut self, id: TaskId) -> bool {
        let Some(at) = self.ids.iter().position(|&other| other == id) else { return false };
        self.load.tasks.remove(at);
        self.ids.remove(at);
        true
    }

    pub(super) fn bounds(&self, steps: &mut Steps) -> Vec<Option<Duration>> {
        let for_bounds = &mut Steps::new(steps.left());
        policies::of(self.policy).judge(&self.load, steps, for_bounds).bounds
    }
}
