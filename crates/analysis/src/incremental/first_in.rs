//! First in, first out: no shorter way than the full test is known here, so it is run each time.

use alloc::vec::Vec;

use punctual_model::Duration;

use super::{Denial, TaskId};
use crate::fifo;
use crate::fixed_priority::ResponseTime;
use crate::load::{CpuLoad, TaskLoad};
use crate::reservation::ReservedLoad;
use crate::steps::Steps;

#[derive(Clone, Debug)]
pub(super) struct FirstIn {
    load: CpuLoad,
    ids: Vec<TaskId>,
}

impl FirstIn {
    pub(super) fn new(load: CpuLoad) -> Self {
        Self { load, ids: Vec::new() }
    }

    pub(super) fn load(&self) -> &CpuLoad {
        &self.load
    }

    pub(super) fn id(&self, at: usize) -> TaskId {
        self.ids[at]
    }

    pub(super) fn admit(
        &mut self,
        id: TaskId,
        task: TaskLoad,
        steps: &mut Steps,
    ) -> Result<(), Denial> {
        self.load.tasks.push(task);
        self.ids.push(id);
        let denial = if fifo::all_in_time(&self.load, steps) {
            None
        } else {
            Some(self.why(Some(id), steps))
        };
        denial.map_or(Ok(()), |denial| {
            self.load.tasks.pop();
            self.ids.pop();
            Err(denial)
        })
    }

    pub(super) fn reserve(
        &mut self,
        reservation: ReservedLoad,
        steps: &mut Steps,
    ) -> Result<(), Denial> {
        let before = self.load.reservations.clone();
        self.load.reserve(reservation);
        let in_time = fifo::all_in_time(&self.load, steps);
        let denial = if in_time { None } else { Some(self.why(None, steps)) };
        denial.map_or(Ok(()), |denial| {
            self.load.reservations = before;
            Err(denial)
        })
    }

    /// Takes a reservation out; false if it is not there.
    pub(super) fn unreserve(&mut self, reservation: &ReservedLoad) -> bool {
        self.load.unreserve(reservation)
    }

    /// Why the tasks are not all in time; `asked` is not named.
    fn why(&self, asked: Option<TaskId>, steps: &mut Steps) -> Denial {
        let times = fifo::response_times(&self.load, steps);
        let late = times.into_iter().zip(&self.load.tasks).zip(&self.ids).find_map(
            |((time, task), &id)| {
                let relative_deadline = Duration::from_nanos(task.deadline);
                let task = (asked != Some(id)).then_some(id);
                match time {
                    ResponseTime::Unbounded => Some(Denial::Overload { task: None }),
                    ResponseTime::AtMost(at_least) | ResponseTime::Undecided { at_least } => {
                        (at_least > relative_deadline).then_some(Denial::Late {
                            task,
                            at_least,
                            relative_deadline,
                        })
                    }
                }
            },
        );
        late.unwrap_or(Denial::Undecided)
    }

    /// Takes a task out; false if it is not there.
    pub(super) fn remove(&mut self, id: TaskId) -> bool {
        let Some(at) = self.ids.iter().position(|&other| other == id) else { return false };
        self.load.tasks.remove(at);
        self.ids.remove(at);
        true
    }

    pub(super) fn response_times(&self, steps: &mut Steps) -> Vec<ResponseTime> {
        fifo::response_times(&self.load, steps)
    }
}
