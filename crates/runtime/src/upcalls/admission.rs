//! What the upcalls of a process were promised, together.

use punctual_analysis::incremental::{Admission, TaskId};
use punctual_analysis::load::CpuLoad;
use punctual_analysis::supply::{Inside, Supply, fits_inside};
use punctual_analysis::{Steps, admit};
use punctual_model::{
    BestEffort, Contract, Duration, HostProfile, Policy, Reservation, Service, Task, TaskSpec,
    Upcall,
};

use super::CreateError;
use crate::placement::Placement;

/// What is counted for putting a thread aside, beside the grace: from the guard's timer to the first
/// instruction of the next handler. The guard wakes, asks for the thread's state and account in
/// /proc, makes the next guard (a stack to map, a clone), lowers the thread, and takes its place. On a
/// loaded virtual machine the longest of 60 was 451 µs (median 345): measured, not proven.
const TAKE_OVER: Service = Service::from_micros(500);

/// The blocking that no upcall causes by itself comes as seldom as this.
const SELDOM: Duration = Duration::from_secs(24 * 3600);

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
    host: HostProfile,
    /// Of containment; none without.
    pub(crate) grace: Option<Duration>,
    /// Whether upcalls inside a reservation are held to the sound test.
    pub(crate) sound_inside: bool,
    /// For how long a release may go unnoticed while nothing runs.
    pub(crate) release_window: Duration,
    members: Vec<Member>,
    /// What was admitted so far, so that one more costs a fraction of all. `None` once the two
    /// tests have disagreed on what the step limit leaves undecided: then all are examined anew.
    admission: Option<Admission>,
    /// The blocking that `admission` counts beside the upcalls' own quanta.
    blocking: Option<(Service, TaskId)>,
}

struct Member {
    task: u32,
    work: Work,
    admitted: Option<TaskId>,
}

impl Promises {
    pub(crate) fn new(placement: Placement, host: HostProfile, grace: Option<Duration>) -> Self {
        let admission = Some(Admission::new(Policy::Rmdp, [], host.context_switch));
        let members = Vec::new();
        let (sound_inside, blocking) = (false, None);
        let release_window = Duration::ZERO;
        Self { placement, host, grace, sound_inside, release_window, members, admission, blocking }
    }

    /// Promises `work` to `task`, if all other promises hold beside it; else nothing changes.
    pub(crate) fn add(&mut self, task: u32, work: Work) -> Result<(), CreateError> {
        self.members.push(Member { task, work, admitted: None });
        let outcome = self.judge_last();
        if outcome.is_err() {
            self.members.pop();
        }
        outcome
    }

    /// Takes a promise back; false if there is none.
    pub(crate) fn remove(&mut self, task: u32) -> bool {
        let Some(at) = self.members.iter().position(|one| one.task == task) else { return false };
        let member = self.members.remove(at);
        if let (Some(admission), Some(id)) = (&mut self.admission, member.admitted) {
            admission.remove(id);
        }
        true
    }

    /// What `task` was promised.
    pub(crate) fn of(&self, task: u32) -> Option<&Work> {
        self.members.iter().find(|one| one.task == task).map(|one| &one.work)
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
                self.admission = None;
                self.members.push(Member { task, work: old.clone(), admitted: None });
            }
        })
    }

    fn real_time(&self) -> impl Iterator<Item = &Upcall> {
        self.members.iter().filter_map(|one| one.work.real_time())
    }

    /// Whether the last member fits beside the others.
    fn judge_last(&mut self) -> Result<(), CreateError> {
        let last = self.members.last().expect("just pushed");
        let may_be_best_effort = match self.placement {
            Placement::Ordinary => true,
            Placement::Upcalls => self.grace.is_some(),
            Placement::Reserved(_) => false,
        };
        if last.work.real_time().is_none() && !may_be_best_effort {
            return Err(CreateError::BestEffort { task: last.task });
        }
        match self.placement {
            Placement::Ordinary => Ok(()),
            Placement::Reserved(reservation) => self.fit_inside(reservation),
            Placement::Upcalls => {
                if self.fits_incrementally() {
                    return Ok(());
                }
                // The whole examination finds the words for the refusal, and what would fit.
                let mut contract = Contract::of_upcalls(self.real_time().cloned().collect());
                contract.tasks.extend(self.blocking_service().map(blocking_task));
                let _granted = admit(&contract, &self.host).map_err(CreateError::Refused)?;
                self.admission = None;
                Ok(())
            }
        }
    }

    fn fits_incrementally(&mut self) -> bool {
        let blocking = self.blocking_service();
        let Some(mut admission) = self.admission.take() else { return false };
        let mut counted = self.blocking;
        let last = self.members.last_mut().expect("just pushed");
        let mut steps = Steps::default();
        let before = (counted.map(|(service, _)| service) != blocking).then(|| admission.clone());
        let admitted = (|| {
            if before.is_some() {
                counted.take().map(|(_, id)| admission.remove(id));
                if let Some(service) = blocking {
                    let task = blocking_task(service);
                    counted = Some((service, admission.admit(&task, &mut steps).ok()?));
                }
            }
            let upcall = last.work.real_time();
            upcall.map_or(Some(None), |upcall| {
                admission.admit(&Task::from(upcall), &mut steps).ok().map(Some)
            })
        })();
        match admitted {
            Some(id) => {
                last.admitted = id;
                self.blocking = counted;
                self.admission = Some(admission);
                true
            }
            None => {
                self.admission = Some(before.unwrap_or(admission));
                false
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
        let best_effort = self.members.iter().filter(|one| one.work.real_time().is_none());
        let best_effort = best_effort.map(|one| one.work.quantum_service()).max();
        let best_effort =
            best_effort.map(|quantum| quantum.saturating_add(grace.unwrap_or_default()));
        // Alone, it can only harm itself.
        let is_alone = self.real_time().nth(1).is_none();
        let longest = self.real_time().map(Upcall::quantum_service).max().filter(|_| !is_alone);
        let contained = longest.zip(grace).map(|(quantum, grace)| quantum.saturating_add(grace));
        let stretch = best_effort.max(contained);
        let window = self.release_window.as_full_service();
        if window.is_zero() {
            stretch
        } else {
            Some(stretch.unwrap_or_default().saturating_add(window))
        }
    }

    fn fit_inside(&self, reservation: Reservation) -> Result<(), CreateError> {
        let needed_ppm = self.real_time().map(Upcall::utilisation_ppm).sum();
        let reserved_ppm = reservation.utilisation_ppm();
        if needed_ppm > reserved_ppm {
            return Err(CreateError::AboveReservation { needed_ppm, reserved_ppm });
        }
        if !self.sound_inside {
            return Ok(());
        }
        let mut tasks: Vec<Task> = self.real_time().map(Task::from).collect();
        tasks.sort_by_key(Task::min_inter_arrival);
        tasks.extend(self.blocking_service().map(blocking_task));
        let load = CpuLoad::new(&tasks, [], self.host.context_switch);
        let supply = Supply::hard_cbs(reservation);
        match fits_inside(Policy::Rmdp, &load, &supply, &mut Steps::default()) {
            Inside::Fits => Ok(()),
            Inside::Late | Inside::Undecided => Err(CreateError::LateInside { reservation }),
        }
    }
}

fn blocking_task(service: Service) -> Task {
    let period = SELDOM.max(service.at_full_speed());
    let spec = TaskSpec::periodic("best effort and containment", period, service);
    Task::new(spec.non_preemptive()).expect("a positive time within its period")
}
