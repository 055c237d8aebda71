//! What the upcalls of a process were promised, together.
//!
//! [`Promises`] holds them; `proofs` finds out whether one more can be given, by the cheapest proof
//! that does.

mod proofs;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use punctual_analysis::{Refusal, Resource, Shortfall};
use punctual_model::{BestEffort, Duration, HostProfile, Reservation, Service, Upcall};

use super::CreateError;
use crate::placement::Placement;
use proofs::Proofs;

/// What is counted for putting a thread aside, beside the grace: from the guard's timer to the first
/// instruction of the next handler. The guard wakes, asks for the thread's state and account in
/// /proc, makes the next guard (a stack to map, a clone), lowers the thread, and takes its place. On a
/// loaded virtual machine the longest of 60 was 451 µs (median 345): measured, not proven.
const TAKE_OVER: Service = Service::from_micros(500);

/// A handler's contract.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    RealTime(Upcall),
    BestEffort(BestEffort),
}

impl Work {
    pub(crate) fn quantum_service(&self) -> Service {
        match self {
            Self::RealTime(upcall) => upcall.quantum_service(),
            Self::BestEffort(upcall) => upcall.quantum_service(),
        }
    }

    fn real_time(&self) -> Option<&Upcall> {
        match self {
            Self::RealTime(upcall) => Some(upcall),
            Self::BestEffort(_) => None,
        }
    }
}

/// What was admitted.
pub(crate) struct Promises {
    pub(crate) placement: Placement,
    /// Of containment; none without.
    pub(crate) grace: Option<Duration>,
    /// Whether upcalls inside a reservation are held to the sound test.
    pub(crate) sound_inside: bool,
    /// For how long a release may go unnoticed while nothing runs.
    pub(crate) release_window: Duration,
    /// By number.
    members: BTreeMap<u32, Work>,
    quanta: Quanta,
    /// Of all real-time ones together, rounded up one by one.
    needed_ppm: u64,
    proofs: Proofs,
}

/// How many members have each quantum: the longest of them is what others may wait for.
#[derive(Default)]
struct Quanta {
    real_time: BTreeMap<Service, usize>,
    best_effort: BTreeMap<Service, usize>,
}

impl Quanta {
    fn of(&mut self, work: &Work) -> &mut BTreeMap<Service, usize> {
        if work.real_time().is_some() { &mut self.real_time } else { &mut self.best_effort }
    }

    fn add(&mut self, work: &Work) {
        *self.of(work).entry(work.quantum_service()).or_default() += 1;
    }

    fn remove(&mut self, work: &Work) {
        let (quanta, quantum) = (self.of(work), work.quantum_service());
        if let Some(members) = quanta.get_mut(&quantum) {
            *members -= 1;
            if *members == 0 {
                quanta.remove(&quantum);
            }
        }
    }
}

impl Promises {
    pub(crate) fn new(placement: Placement, host: HostProfile, grace: Option<Duration>) -> Self {
        Self {
            placement,
            grace,
            sound_inside: false,
            release_window: Duration::ZERO,
            members: BTreeMap::new(),
            quanta: Quanta::default(),
            needed_ppm: 0,
            proofs: Proofs::new(host),
        }
    }

    /// Of the real-time upcalls.
    pub(crate) fn periods(&self) -> impl Iterator<Item = Duration> + '_ {
        self.members.values().filter_map(Work::real_time).map(Upcall::period)
    }

    /// Promises `work` to `task`, whose number is free, if all other promises hold beside it; else
    /// nothing changes.
    pub(crate) fn add(&mut self, task: u32, work: Work) -> Result<(), CreateError> {
        let may_be_best_effort = match self.placement {
            Placement::Ordinary => true,
            Placement::Upcalls => self.grace.is_some(),
            // Below all real-time work, and lifted again: nobody grants that.
            Placement::Reserved(_) | Placement::Granted => false,
        };
        if work.real_time().is_none() && !may_be_best_effort {
            return Err(CreateError::BestEffort { task });
        }
        self.count(task, work);
        self.judge().inspect_err(|_| _ = self.remove(task))
    }

    /// Takes a promise back; false if there is none.
    pub(crate) fn remove(&mut self, task: u32) -> bool {
        let Some(work) = self.members.remove(&task) else { return false };
        self.quanta.remove(&work);
        if let Some(upcall) = work.real_time() {
            self.needed_ppm -= upcall.utilisation_ppm();
            self.proofs.remove(task, upcall);
        }
        true
    }

    /// What `task` was promised.
    pub(crate) fn of(&self, task: u32) -> Option<&Work> {
        self.members.get(&task)
    }

    /// Promises `task` this instead, if everything holds beside it; else nothing changes.
    pub(crate) fn change(&mut self, task: u32, upcall: Upcall) -> Result<(), CreateError> {
        let Some(old) = self.of(task).cloned() else {
            return Err(CreateError::NoSuchUpcall { task });
        };
        if old.real_time().is_none() {
            return Err(CreateError::BestEffort { task });
        }
        self.remove(task);
        self.add(task, Work::RealTime(upcall)).inspect_err(|_| {
            // It held before. Should the step limit now leave it undecided, the next examination
            // is of all anew.
            if self.add(task, old.clone()).is_err() {
                self.count(task, old.clone());
                self.proofs.give_up();
            }
        })
    }

    fn count(&mut self, task: u32, work: Work) {
        self.quanta.add(&work);
        if let Some(upcall) = work.real_time() {
            self.needed_ppm += upcall.utilisation_ppm();
            self.proofs.count(task, upcall);
        }
        self.members.insert(task, work);
    }

    fn real_time(&self) -> impl Iterator<Item = &Upcall> {
        self.members.values().filter_map(Work::real_time)
    }

    /// Whether all members fit beside each other.
    fn judge(&mut self) -> Result<(), CreateError> {
        let blocking = self.blocking_service();
        match self.placement {
            Placement::Ordinary => Ok(()),
            Placement::Reserved(reservation) => self.fit_inside(reservation, blocking),
            Placement::Upcalls | Placement::Granted => {
                let members = &self.members;
                let upcall_of = |task: u32| members.get(&task).and_then(Work::real_time);
                if self.proofs.prove(&upcall_of, blocking) {
                    return Ok(());
                }
                // The whole examination finds the words for the refusal, and what would fit.
                self.proofs.examine(self.real_time().cloned().collect(), blocking)?;
                self.proofs.give_up();
                Ok(())
            }
        }
    }

    /// What the upcalls may have to wait for beside each other's quanta, as one stretch below all
    /// of them: a best-effort quantum; and the longest quantum, of a handler that does not come
    /// back, with what it takes until it is put aside. A more urgent one takes no more than that
    /// beyond its own share either. To that comes the release window: the thread sleeps through it
    /// only when nothing is left to do, so it is lost once a busy period, at its beginning.
    fn blocking_service(&self) -> Option<Service> {
        let grace = self.grace.map(|grace| grace.as_full_service().saturating_add(TAKE_OVER));
        let Quanta { real_time, best_effort } = &self.quanta;
        let best_effort = best_effort.last_key_value();
        let best_effort =
            best_effort.map(|(quantum, _)| quantum.saturating_add(grace.unwrap_or_default()));
        // Alone, it can only harm itself.
        let is_alone = real_time.values().take(2).sum::<usize>() < 2;
        let longest = real_time.last_key_value().filter(|_| !is_alone);
        let contained =
            longest.zip(grace).map(|((quantum, _), grace)| quantum.saturating_add(grace));
        let stretch = best_effort.max(contained);
        let window = self.release_window.as_full_service();
        if window.is_zero() {
            stretch
        } else {
            Some(stretch.unwrap_or_default().saturating_add(window))
        }
    }

    fn fit_inside(
        &self,
        reservation: Reservation,
        blocking: Option<Service>,
    ) -> Result<(), CreateError> {
        let (needed_ppm, reserved_ppm) = (self.needed_ppm, reservation.utilisation_ppm());
        if needed_ppm > reserved_ppm {
            let why = format!(
                "the upcalls would need {needed_ppm} parts per million of a CPU, and {reservation} gives {reserved_ppm}"
            );
            return Err(CreateError::Refused(Box::new(Refusal {
                shortfall: Some(Shortfall::Share(needed_ppm - reserved_ppm)),
                ..Refusal::new("reservation-share", Resource::Bandwidth, why)
            })));
        }
        if !self.sound_inside {
            return Ok(());
        }
        self.proofs.fit_inside(self.real_time(), reservation, blocking)
    }
}
