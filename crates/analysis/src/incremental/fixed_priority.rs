//! Fixed priorities: the tasks in their order, each with its certificate.

use alloc::vec::Vec;

use punctual_model::{Duration, Service};

use super::certificate::Certificate;
use super::sweep::Sweep;
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
    /// The position at which the last request was denied.
    suspect: usize,
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

    /// Takes note that the reservations above it shrank from `before` to `after`.
    fn relieve(&mut self, before: &[ReservedLoad], after: &[ReservedLoad]) {
        self.certificate.give_reserved(before, after);
        self.window = 0;
    }
}

impl FixedPriority {
    pub(super) fn new(load: CpuLoad) -> Self {
        let reserved = load.reserved().below();
        Self { load, marks: Vec::new(), reserved, suspect: 0 }
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
        let mark = self.mark(at, id, &task);
        self.load.tasks.insert(at, task);
        self.marks.insert(at, mark);
        let mut renewed = Vec::new();
        let answer = self.examine_all_with(at, &mut renewed, steps);
        match answer {
            Ok(()) => self.settle(at, renewed),
            Err(_) => self.settle_without(at, renewed),
        }
        answer.map_err(|denied| self.suspecting(denied))
    }

    /// Inserts `task` at position `at`, with which all tasks are known to be in time. Certificates
    /// that do not show it are given up.
    pub(super) fn insert(&mut self, at: usize, id: TaskId, task: TaskLoad) {
        let mark = self.mark(at, id, &task);
        self.load.tasks.insert(at, task);
        self.marks.insert(at, mark);
        for mark in &mut self.marks[at + 1..] {
            if mark.certificate.bears(&task) {
                mark.certificate.take(&task);
            } else {
                mark.certificate = Certificate::Missing;
            }
        }
        // The blocking never falls from one task to the next more urgent one.
        for mark in self.marks[..at].iter_mut().rev() {
            if mark.blocking >= task.quantum {
                break;
            }
            let old = core::mem::replace(&mut mark.blocking, task.quantum);
            if mark.certificate.bears_blocking(old, mark.blocking) {
                mark.certificate.change_blocking(old, mark.blocking);
            } else {
                mark.certificate = Certificate::Missing;
            }
        }
    }

    /// Returns the mark of a task that is to be inserted at position `at`.
    fn mark(&self, at: usize, id: TaskId, task: &TaskLoad) -> Mark {
        let below = self.load.tasks.get(at).zip(self.marks.get(at));
        let blocking =
            below.map_or(self.load.wake_up, |(task, mark)| mark.blocking.max(task.quantum));
        let share = Ratio::below(task.work, task.period);
        Mark { id, certificate: Certificate::Missing, blocking, window: 0, share }
    }

    /// Examines the tasks that the one at `added` may make late. Changes nothing, and adds the
    /// findings to `renewed` by position.
    fn examine_all_with(
        &self,
        added: usize,
        renewed: &mut Vec<(usize, Found)>,
        steps: &mut Steps,
    ) -> Result<(), (usize, Denial)> {
        let task = &self.load.tasks[added];
        let unproven = |at: usize, mark: &Mark| {
            let (proven, blocking) = if at < added {
                let blocking = mark.blocking.max(task.quantum);
                let proven = blocking == mark.blocking
                    || mark.certificate.bears_blocking(mark.blocking, blocking);
                (proven, blocking)
            } else {
                (at > added && mark.certificate.bears(task), mark.blocking)
            };
            (!proven).then_some(blocking)
        };
        self.examine_all(Some(added), unproven, renewed, steps)
    }

    /// Examines each task that `unproven` gives a blocking. Fails with the position of the first
    /// one that may be late. If yes or no is enough, the one that denied the last request comes
    /// first: of a series of similar requests each nearly always fails where the one before did.
    fn examine_all(
        &self,
        added: Option<usize>,
        mut unproven: impl FnMut(usize, &Mark) -> Option<u64>,
        renewed: &mut Vec<(usize, Found)>,
        steps: &mut Steps,
    ) -> Result<(), (usize, Denial)> {
        steps.take(self.marks.len()).map_err(|out| (0, out.into()))?;
        let suspect = self.marks.get(self.suspect).filter(|_| steps.is_brief());
        if let Some(Mark { blocking, .. }) = suspect {
            let verdict = self.examine(self.suspect, *blocking, &mut Sweep::default(), steps);
            if let Verdict::Late { .. } | Verdict::Overload = verdict {
                return Err((self.suspect, self.denial(self.suspect, added, verdict, steps)));
            }
        }
        let mut sweep = Sweep::default();
        for (at, mark) in self.marks.iter().enumerate() {
            let Some(blocking) = unproven(at, mark) else { continue };
            match self.examine(at, blocking, &mut sweep, steps) {
                Verdict::InTime(found) => renewed.push((at, found)),
                verdict => return Err((at, self.denial(at, added, verdict, steps))),
            }
        }
        Ok(())
    }

    fn suspecting(&mut self, (at, denial): (usize, Denial)) -> Denial {
        self.suspect = at;
        denial
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
        let mut renewed = Vec::new();
        let answer = self.examine_all_under(&before, &mut growths, &mut renewed, steps);
        if answer.is_ok() {
            let (mut renewed, mut growths) = (renewed.into_iter().peekable(), growths.into_iter());
            for (at, mark) in self.marks.iter_mut().enumerate() {
                match renewed.next_if(|(position, _)| *position == at) {
                    Some((_, found)) => mark.renew(found),
                    None => mark.certificate.take_growths(&mut growths),
                }
            }
        } else {
            // What holds beneath the reservation holds without it.
            for (at, found) in renewed {
                self.marks[at].renew(found);
                self.marks[at].relieve(&self.load.reservations, &before);
            }
            (self.load.reservations, self.reserved) = (before, share);
        }
        answer.map_err(|denied| self.suspecting(denied))
    }

    /// Examines the tasks like [`Self::examine_all_with`], under the current reservations instead
    /// of those `before`. Adds the losses of the instants of the remaining certificates to
    /// `growths`.
    fn examine_all_under(
        &self,
        before: &[ReservedLoad],
        growths: &mut Vec<u64>,
        renewed: &mut Vec<(usize, Found)>,
        steps: &mut Steps,
    ) -> Result<(), (usize, Denial)> {
        let unproven = |_, mark: &Mark| {
            let bears = mark.certificate.bears_reserved(before, &self.load.reservations, growths);
            (!bears).then_some(mark.blocking)
        };
        self.examine_all(None, unproven, renewed, steps)
    }

    /// Takes a reservation out. Returns false if it is not there.
    pub(super) fn unreserve(&mut self, reservation: &ReservedLoad) -> bool {
        let before = self.load.reservations.clone();
        if !self.load.unreserve(reservation) {
            return false;
        }
        self.reserved = self.load.reserved().below();
        self.marks.iter_mut().for_each(|mark| mark.relieve(&before, &self.load.reservations));
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

    fn examine(&self, at: usize, blocking: u64, sweep: &mut Sweep, steps: &mut Steps) -> Verdict {
        if let Some(certificate) = sweep.certificate(&self.load, at, blocking, steps) {
            return Verdict::InTime(Found { certificate, window: self.marks[at].window });
        }
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

    /// Takes the task at `added` out again, whose admission is denied, and keeps the `renewed`
    /// certificates: what holds with the task holds without it.
    fn settle_without(&mut self, added: usize, renewed: Vec<(usize, Found)>) {
        let task = self.load.tasks.remove(added);
        for (at, found) in renewed {
            let mark = &mut self.marks[at];
            mark.renew(found);
            mark.window = 0;
            if at > added {
                mark.certificate.give(&task);
            } else {
                let counted = mark.blocking.max(task.quantum);
                mark.certificate.change_blocking(counted, mark.blocking);
            }
        }
        self.marks.remove(added);
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
