//! The promises to the upcalls of a process, admitted together.
//!
//! [`Promises`] holds them. A [`System`] of one CPU decides whether the upcalls are in time, with
//! one stretch of blocking below all of them. Inside a reservation they are held to its share, or
//! to its supply.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use punctual_analysis::load::CpuLoad;
use punctual_analysis::supply::{Inside, Supply, fits_inside};
use punctual_analysis::{Refusal, Request, Resource, Shortfall, Steps, System, UpcallOrder, admit};
use punctual_model::units::percent;
use punctual_model::{
    BestEffort, Contract, Duration, HostProfile, Instant, Policy, Reservation, Service, Task,
    TaskSpec, Upcall,
};

use super::CreateError;
use crate::placement::Placement;

/// The period of the blocking that no upcall causes by itself.
const SELDOM: Duration = Duration::from_secs(24 * 3600);

/// The time that admission counts for replacing a stuck thread, in addition to the grace: from the
/// guard's timer to the first instruction of the next handler. The guard wakes, reads the thread's
/// state and account in /proc, creates the next guard (a stack to map, a clone), lowers the thread,
/// and takes its place. On a loaded virtual machine the longest of 60 was 451 µs (median 345):
/// measured, not proven.
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

/// The admitted upcalls of a process.
pub(crate) struct Promises {
    pub(crate) placement: Placement,
    /// The grace of containment; `None` without containment.
    pub(crate) grace: Option<Duration>,
    /// True if upcalls inside a reservation are held to the sound test.
    pub(crate) sound_inside: bool,
    /// The time for which a release may go unnoticed while nothing runs.
    pub(crate) release_window: Duration,
    /// The contracts by the numbers of the upcalls.
    members: BTreeMap<u32, Work>,
    quanta: Quanta,
    /// The utilisation of all real-time upcalls together, each rounded up.
    needed_ppm: u64,
    host: HostProfile,
    /// The real-time upcalls outside reservations, and the blocking below them.
    system: System<Entry>,
    /// The blocking that `system` counts beside the upcalls' own quanta.
    blocking: Option<Service>,
}

/// An entry of the CPU's admission state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Entry {
    Upcall(u32),
    Blocking,
}

/// The number of members for each quantum: the longest quantum blocks the others.
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
            host,
            // No other bound holds for upcalls than their deadlines.
            system: System::new(
                HostProfile { cpus: 1, reservable_ppm: u64::MAX, ..host },
                UpcallOrder::LevelOrder,
            ),
            blocking: None,
        }
    }

    /// Returns the periods of the real-time upcalls.
    pub(crate) fn periods(&self) -> impl Iterator<Item = Duration> + '_ {
        self.members.values().filter_map(Work::real_time).map(Upcall::period)
    }

    /// Promises `work` to `task`, whose number is free, if all other promises hold beside it from `now`
    /// on; otherwise changes nothing. `None` means that nothing runs yet.
    pub(crate) fn add(
        &mut self,
        task: u32,
        work: Work,
        now: Option<Instant>,
    ) -> Result<(), CreateError> {
        let may_be_best_effort = match self.placement {
            Placement::Ordinary => true,
            Placement::Upcalls => self.grace.is_some(),
            // Best effort runs below all real-time work and is lifted again: neither placement
            // allows that.
            Placement::Reserved(_) | Placement::Granted => false,
        };
        if work.real_time().is_none() && !may_be_best_effort {
            return Err(CreateError::BestEffort { task });
        }
        let entering = work.real_time().map(Task::from);
        self.count(task, work);
        self.judge(None, entering.map(|upcall| (task, upcall)), now)
            .inspect_err(|_| _ = self.uncount(task))
    }

    /// Takes a promise back; returns false if there is none. The upcall counts as long as it affects
    /// others ([`System::retire`]); `now` is `None` if it has not run.
    pub(crate) fn remove(&mut self, task: u32, now: Option<Instant>) -> bool {
        if self.uncount(task).is_none() {
            return false;
        }
        match now {
            Some(now) => self.system.retire(Entry::Upcall(task), now),
            None => self.system.release(Entry::Upcall(task)),
        };
        if self.is_proven_by_system() {
            // Blocking can only fall by that. If the step limit leaves it undecided, more blocking
            // is counted than necessary.
            let _ = self.exchange(None, None, now);
        }
        true
    }

    /// Records that no upcall had work at `at`: if the upcalls have the CPU to themselves, those that
    /// left before affect no job any more.
    pub(crate) fn idle(&mut self, at: Instant) {
        if self.placement == Placement::Upcalls {
            self.system.idle(0, at);
        }
    }

    /// Records that a change decided at `from` took effect only at `to`.
    pub(crate) fn postpone(&mut self, from: Instant, to: Instant) {
        self.system.postpone(from, to);
    }

    /// Returns the contract of `task`.
    pub(crate) fn of(&self, task: u32) -> Option<&Work> {
        self.members.get(&task)
    }

    /// Replaces the promise to `task` from `now` on, if everything holds with the new and the old one;
    /// otherwise changes nothing. `None` means that nothing runs yet.
    pub(crate) fn change(
        &mut self,
        task: u32,
        upcall: Upcall,
        now: Option<Instant>,
    ) -> Result<(), CreateError> {
        if self.of(task).is_some_and(|work| work.real_time().is_none()) {
            return Err(CreateError::BestEffort { task });
        }
        let Some(old) = self.uncount(task) else { return Err(CreateError::NoSuchUpcall { task }) };
        let entering = Task::from(&upcall);
        self.count(task, Work::RealTime(upcall));
        self.judge(Some(task), Some((task, entering)), now).inspect_err(|_| {
            self.uncount(task);
            self.count(task, old);
        })
    }

    fn count(&mut self, task: u32, work: Work) {
        self.quanta.add(&work);
        self.needed_ppm += work.real_time().map_or(0, Upcall::utilisation_ppm);
        self.members.insert(task, work);
    }

    fn uncount(&mut self, task: u32) -> Option<Work> {
        let work = self.members.remove(&task)?;
        self.quanta.remove(&work);
        self.needed_ppm -= work.real_time().map_or(0, Upcall::utilisation_ppm);
        Some(work)
    }

    fn is_proven_by_system(&self) -> bool {
        matches!(self.placement, Placement::Upcalls | Placement::Granted)
    }

    fn real_time(&self) -> impl Iterator<Item = &Upcall> {
        self.members.values().filter_map(Work::real_time)
    }

    /// Decides whether all members fit beside each other: the admitted ones with `entering` in
    /// place of `leaving`. The caller has counted the members already.
    fn judge(
        &mut self,
        leaving: Option<u32>,
        entering: Option<(u32, Task)>,
        now: Option<Instant>,
    ) -> Result<(), CreateError> {
        match self.placement {
            Placement::Ordinary => Ok(()),
            Placement::Reserved(reservation) => self.fit_inside(reservation),
            Placement::Upcalls | Placement::Granted => {
                self.exchange(leaving, entering, now).map_err(|refusal| self.in_full(refusal))
            }
        }
        .map_err(CreateError::Refused)
    }

    /// Has the system admit `entering` in place of `leaving`, beside the blocking that all members
    /// cause.
    fn exchange(
        &mut self,
        leaving: Option<u32>,
        entering: Option<(u32, Task)>,
        now: Option<Instant>,
    ) -> Result<(), Box<Refusal>> {
        let mut left: Vec<Entry> = leaving.map(Entry::Upcall).into_iter().collect();
        let mut entered: Vec<(Entry, Task)> =
            entering.into_iter().map(|(task, upcall)| (Entry::Upcall(task), upcall)).collect();
        let blocking = self.blocking_service();
        if blocking != self.blocking {
            left.push(Entry::Blocking);
            entered.extend(blocking.map(|service| (Entry::Blocking, blocking_task(service))));
        }
        let requests: Vec<_> = entered
            .iter()
            .map(|(entry, task)| (*entry, Request::Executor(std::slice::from_ref(task))))
            .collect();
        let steps = &mut Steps::for_tasks(self.members.len());
        self.system.exchange(&left, &requests, now, steps)?;
        self.blocking = blocking;
        Ok(())
    }

    /// Returns the refusal that one examination of everything gives, with all its numbers and
    /// offers. Returns `brief` if that examination decides what the system could not within the
    /// step limit.
    fn in_full(&self, brief: Box<Refusal>) -> Box<Refusal> {
        let mut contract = Contract::of_upcalls(self.real_time().cloned().collect());
        contract.tasks.extend(self.blocking_service().map(blocking_task));
        admit(&contract, &self.host).err().unwrap_or(brief)
    }

    /// Returns the blocking of the upcalls beside each other's quanta, as one stretch below all of
    /// them. It is a best-effort quantum, or the longest quantum of a handler that does not return,
    /// with the time until its thread is replaced; whichever is longer. A more urgent upcall that
    /// is stuck takes no more than that beyond its own share either. The release window is added:
    /// the thread sleeps through it only when nothing is left to do, so it is lost once a busy
    /// period, at its beginning.
    fn blocking_service(&self) -> Option<Service> {
        let grace = self.grace.map(|grace| grace.as_full_service().saturating_add(TAKE_OVER));
        let Quanta { real_time, best_effort } = &self.quanta;
        let best_effort = best_effort.last_key_value();
        let best_effort =
            best_effort.map(|(quantum, _)| quantum.saturating_add(grace.unwrap_or_default()));
        // An upcall that is alone can only harm itself.
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

    fn fit_inside(&self, reservation: Reservation) -> Result<(), Box<Refusal>> {
        let (needed_ppm, reserved_ppm) = (self.needed_ppm, reservation.utilisation_ppm());
        if needed_ppm > reserved_ppm {
            let why = format!(
                "the upcalls would need {} of a CPU, and {reservation} gives {}",
                percent(needed_ppm),
                percent(reserved_ppm)
            );
            return Err(Box::new(Refusal {
                shortfall: Some(Shortfall::Share(needed_ppm - reserved_ppm)),
                ..Refusal::new("reservation-share", Resource::Bandwidth, why)
            }));
        }
        if !self.sound_inside {
            return Ok(());
        }
        let mut tasks: Vec<Task> = self.real_time().map(Task::from).collect();
        tasks.sort_by_key(Task::min_inter_arrival);
        tasks.extend(self.blocking_service().map(blocking_task));
        let load =
            CpuLoad::new(&tasks, [], self.host.context_switch).with_wake_up(self.host.wake_up);
        let supply = Supply::hard_cbs(reservation);
        match fits_inside(Policy::Rmdp, &load, &supply, &mut Steps::default()) {
            Inside::Fits => Ok(()),
            Inside::Late | Inside::Undecided => {
                let why = format!(
                    "inside {reservation} the upcalls are not proven to be in time, because its \
                     budget may come late in each period; reserve more, or at a shorter period"
                );
                Err(Box::new(Refusal::new("reservation-supply", Resource::Cpu, why)))
            }
        }
    }
}

fn blocking_task(service: Service) -> Task {
    let period = SELDOM.max(service.at_full_speed());
    let spec = TaskSpec::periodic("best effort and containment", period, service);
    Task::new(spec.non_preemptive()).expect("a positive time within its period")
}
