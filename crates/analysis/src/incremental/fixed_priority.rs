//! Fixed priorities: the tasks in their order, each with its certificate.

use alloc::vec::Vec;

use punctual_model::{Duration, Service};

use super::certificate::Certificate;
use super::window::{Found, Level, Verdict};
use super::{Denial, TaskId};
use crate::fixed_priority::{ResponseTime, last_segment, response_time_of};
use crate::judge::LAST_LOOK_EACH;
use crate::load::{CpuLoad, Granularity, TaskLoad};
use crate::ratio::Ratio;
use crate::reservation::ReservedLoad;
use crate::steps::Steps;

#[derive(Clone, Debug)]
pub(super) struct FixedPriority {
    /// The most urgent first.
    load: CpuLoad,
    /// The mark of the task at the same position.
    marks: Vec<Mark>,
    /// The share of the reservations, rounded down.
    reserved: Ratio,
}

#[derive(Clone, Debug)]
pub(super) struct Mark {
    id: TaskId,
    pub(super) certificate: Certificate,
    /// The largest quantum of a less urgent task, or the wake-up, as the certificate counts it.
    pub(super) blocking: u64,
    /// A lower bound of the first busy window.
    window: u64,
    /// The task's share of the CPU, rounded down.
    share: Ratio,
}

impl Mark {
    fn renew(&mut self, found: Found) {
        self.certificate = found.certificate;
        self.window = found.window;
    }
}

impl FixedPriority {
    pub(super) fn new(load: CpuLoad) -> Self {
        let reserved = load.reserved().below();
        Self { load, marks: Vec::new(), reserved }
    }

    pub(super) fn load(&self) -> &CpuLoad {
        &self.load
    }

    pub(super) fn load_mut(&mut self) -> &mut CpuLoad {
        &mut self.load
    }

    #[cfg(test)]
    pub(super) fn marks(&self) -> &[Mark] {
        &self.marks
    }

    pub(super) fn id(&self, at: usize) -> TaskId {
        self.marks[at].id
    }

    /// Names all tasks of the load, which were found to be in time. Each is examined at the first
    /// change for the worse.
    pub(super) fn name_all(&mut self, ids: &[TaskId]) {
        let marks = self.load.tasks.iter().zip(ids).zip(self.load.blocking_bounds());
        let mark = |((task, &id), blocking): ((&TaskLoad, &TaskId), u64)| Mark {
            id,
            certificate: Certificate::Missing,
            blocking,
            window: 0,
            share: Ratio::below(task.work, task.period),
        };
        self.marks = marks.map(mark).collect();
    }

    /// Inserts `task` at position `at` if all tasks remain in time.
    pub(super) fn admit(
        &mut self,
        at: usize,
        id: TaskId,
        task: TaskLoad,
        steps: &mut Steps,
    ) -> Result<(), Denial> {
        let below = self.load.tasks.get(at).zip(self.marks.get(at));
        let blocking =
            below.map_or(self.load.wake_up, |(task, mark)| mark.blocking.max(task.quantum));
        let share = Ratio::below(task.work, task.period);
        let certificate = Certificate::Missing;
        self.load.tasks.insert(at, task);
        self.marks.insert(at, Mark { id, certificate, blocking, window: 0, share });
        match self.examine_all_with(at, steps) {
            Ok(renewed) => {
                self.settle(at, renewed);
                Ok(())
            }
            Err(denial) => {
                self.load.tasks.remove(at);
                self.marks.remove(at);
                Err(denial)
            }
        }
    }

    /// Examines the tasks that the one at `added` may make late. Changes nothing, and returns the
    /// findings by position.
    fn examine_all_with(
        &self,
        added: usize,
        steps: &mut Steps,
    ) -> Result<Vec<(usize, Found)>, Denial> {
        let task = &self.load.tasks[added];
        steps.take(self.marks.len())?;
        let mut renewed = Vec::new();
        for (at, mark) in self.marks.iter().enumerate() {
            let (proven, blocking) = if at < added {
                let blocking = mark.blocking.max(task.quantum);
                let proven = blocking == mark.blocking
                    || mark.certificate.bears_blocking(mark.blocking, blocking);
                (proven, blocking)
            } else {
                (at > added && mark.certificate.bears(task), mark.blocking)
            };
            if proven {
                continue;
            }
            match self.examine(at, blocking, steps) {
                Verdict::InTime(found) => renewed.push((at, found)),
                verdict => return Err(self.denial(at, Some(added), verdict, steps)),
            }
        }
        Ok(renewed)
    }

    /// Puts `reservation` above all tasks if they all remain in time.
    pub(super) fn reserve(
        &mut self,
        reservation: ReservedLoad,
        steps: &mut Steps,
    ) -> Result<(), Denial> {
        let (before, share) = (self.load.reservations.clone(), self.reserved);
        self.load.reserve(reservation);
        self.reserved = self.load.reserved().below();
        let mut growths = Vec::with_capacity(self.marks.len());
        match self.examine_all_under(&before, &mut growths, steps) {
            Ok(renewed) => {
                let (mut renewed, mut growths) =
                    (renewed.into_iter().peekable(), growths.into_iter());
                for (at, mark) in self.marks.iter_mut().enumerate() {
                    match renewed.next_if(|(position, _)| *position == at) {
                        Some((_, found)) => mark.renew(found),
                        None => mark.certificate.take_growths(&mut growths),
                    }
                }
                Ok(())
            }
            Err(denial) => {
                (self.load.reservations, self.reserved) = (before, share);
                Err(denial)
            }
        }
    }

    /// Examines the tasks like [`Self::examine_all_with`], under the current reservations instead
    /// of those `before`. Puts the losses of the instants of the remaining certificates into
    /// `growths`.
    fn examine_all_under(
        &self,
        before: &[ReservedLoad],
        growths: &mut Vec<u64>,
        steps: &mut Steps,
    ) -> Result<Vec<(usize, Found)>, Denial> {
        steps.take(self.marks.len())?;
        let mut renewed = Vec::new();
        for (at, mark) in self.marks.iter().enumerate() {
            if mark.certificate.bears_reserved(before, &self.load.reservations, growths) {
                continue;
            }
            match self.examine(at, mark.blocking, steps) {
                Verdict::InTime(found) => renewed.push((at, found)),
                verdict => return Err(self.denial(at, None, verdict, steps)),
            }
        }
        Ok(renewed)
    }

    /// Takes a reservation out. Returns false if it is not there.
    pub(super) fn unreserve(&mut self, reservation: &ReservedLoad) -> bool {
        let before = self.load.reservations.clone();
        if !self.load.unreserve(reservation) {
            return false;
        }
        self.reserved = self.load.reserved().below();
        for mark in &mut self.marks {
            mark.certificate.give_reserved(&before, &self.load.reservations);
            mark.window = 0;
        }
        true
    }

    /// Restores a reservation beneath which all tasks were in time.
    pub(super) fn put_back(&mut self, reservation: ReservedLoad) {
        let before = self.load.reservations.clone();
        self.load.reserve(reservation);
        self.reserved = self.load.reserved().below();
        let mut growths = Vec::new();
        for Mark { certificate, .. } in &mut self.marks {
            growths.clear();
            if certificate.bears_reserved(&before, &self.load.reservations, &mut growths) {
                certificate.take_growths(&mut growths.iter().copied());
            } else {
                *certificate = Certificate::Missing;
            }
        }
    }

    fn examine(&self, at: usize, blocking: u64, steps: &mut Steps) -> Verdict {
        let shares = self.marks[..at].iter().map(|mark| mark.share);
        let above = shares.fold(self.reserved, Ratio::plus);
        Level::new(&self.load, at, blocking, above).examine(self.marks[at].window, steps)
    }

    /// Returns the reason to deny the task at a position, with its response time if a look at it
    /// alone finds that and the reason is wanted.
    fn denial(&self, at: usize, added: Option<usize>, verdict: Verdict, steps: &Steps) -> Denial {
        let at_least = match verdict {
            Verdict::Late { at_least } => Duration::from_nanos(at_least),
            Verdict::Overload => Duration::ZERO,
            Verdict::Undecided | Verdict::InTime(_) => return Denial::Undecided,
        };
        let look = if steps.is_brief() { 0 } else { LAST_LOOK_EACH };
        let found = response_time_of(&self.load, at, &mut Steps::new(look));
        let response_time = match found {
            ResponseTime::Undecided { at_least: found } => {
                ResponseTime::Undecided { at_least: found.max(at_least) }
            }
            _ => found,
        };
        Denial::Late {
            task: (Some(at) != added).then(|| self.marks[at].id),
            response_time,
            relative_deadline: Duration::from_nanos(self.load.tasks[at].deadline),
        }
    }

    /// Subtracts the task at `added` from every spare, and replaces the `renewed` certificates.
    fn settle(&mut self, added: usize, renewed: Vec<(usize, Found)>) {
        let task = self.load.tasks[added];
        let mut renewed = renewed.into_iter().peekable();
        for (at, mark) in self.marks.iter_mut().enumerate() {
            let old = mark.blocking;
            if at < added {
                mark.blocking = old.max(task.quantum);
            }
            if let Some((_, found)) = renewed.next_if(|(position, _)| *position == at) {
                mark.renew(found);
            } else if at > added {
                mark.certificate.take(&task);
            } else if mark.blocking > old {
                mark.certificate.change_blocking(old, mark.blocking);
            }
        }
    }

    /// Takes a task out. Returns false if it is not there.
    pub(super) fn remove(&mut self, id: TaskId) -> bool {
        let Some(at) = self.marks.iter().position(|mark| mark.id == id) else { return false };
        let task = self.load.tasks.remove(at);
        self.marks.remove(at);
        for mark in &mut self.marks[at..] {
            mark.certificate.give(&task);
            mark.window = 0;
        }
        // Blocking can fall only from here up to the next task with a quantum as large.
        let below = self.load.tasks.get(at).zip(self.marks.get(at));
        let mut blocking =
            below.map_or(self.load.wake_up, |(task, mark)| mark.blocking.max(task.quantum));
        for (mark, other) in self.marks[..at].iter_mut().zip(&self.load.tasks).rev() {
            if mark.blocking == blocking {
                break;
            }
            mark.certificate.change_blocking(mark.blocking, blocking);
            mark.blocking = blocking;
            mark.window = 0;
            blocking = blocking.max(other.quantum);
        }
        true
    }

    pub(super) fn response_times(&self, steps: &mut Steps) -> Vec<ResponseTime> {
        let last = |task: &TaskLoad| Service::from_nanos(task.last);
        let last: Vec<Service> = self.load.tasks.iter().map(last).collect();
        last_segment::response_times(&self.load, &last, Granularity::Continuous, steps)
    }
}
