//! The proofs that real-time upcalls are in time, the cheapest first.
//!
//! 1. In bands ([`Bands`]): a cost that does not grow with the upcalls, and enough up to about two
//!    thirds of the CPU.
//! 2. One at a time ([`Admission`]): exact, linear in the upcalls. What was proven in bands is brought
//!    in when this is needed for the first time.
//! 3. All anew ([`admit`]): only to word a refusal, or where the step limit leaves the second undecided.

use std::collections::{BTreeMap, BTreeSet};

use punctual_analysis::incremental::{Admission, Bands, TaskId};
use punctual_analysis::load::CpuLoad;
use punctual_analysis::supply::{Inside, Supply, fits_inside};
use punctual_analysis::{Refusal, Resource, Steps, admit};
use punctual_model::{
    Contract, Duration, HostProfile, Policy, Reservation, Service, Task, TaskSpec, Upcall,
};

use crate::upcalls::CreateError;

/// The blocking that no upcall causes by itself comes as seldom as this.
const SELDOM: Duration = Duration::from_secs(24 * 3600);

pub(super) struct Proofs {
    host: HostProfile,
    /// Of all upcalls. `None` if one could not be counted.
    bands: Option<Bands>,
    /// The blocking that `bands` counts beside the upcalls' own quanta.
    counted: Option<Service>,
    /// Those that are not in `exact` yet.
    awaiting: BTreeSet<u32>,
    /// `None` once the two exact tests have disagreed on what the step limit leaves undecided.
    exact: Option<Exact>,
}

struct Exact {
    admission: Admission,
    ids: BTreeMap<u32, TaskId>,
    /// As [`Proofs::counted`].
    blocking: Option<(Service, TaskId)>,
}

impl Proofs {
    pub(super) fn new(host: HostProfile) -> Self {
        let admission = Admission::new(Policy::Rmdp, [], host.context_switch);
        let exact = Exact { admission, ids: BTreeMap::new(), blocking: None };
        let bands = Some(Bands::new(host.context_switch));
        Self { host, bands, counted: None, awaiting: BTreeSet::new(), exact: Some(exact) }
    }

    /// Whether all upcalls are in time, beside a stretch of `blocking` below them all. `upcall_of` says
    /// which has a number.
    pub(super) fn prove<'a>(
        &mut self,
        upcall_of: &impl Fn(u32) -> Option<&'a Upcall>,
        blocking: Option<Service>,
    ) -> bool {
        self.count_blocking(blocking);
        let hold = self.bands.as_ref().is_some_and(Bands::hold);
        hold || self.prove_exactly(upcall_of, blocking).is_some()
    }

    /// `task` is an upcall as well, not proven yet.
    pub(super) fn count(&mut self, task: u32, upcall: &Upcall) {
        self.awaiting.insert(task);
        self.count_in_bands(&Task::from(upcall));
    }

    /// `task`, which was counted, is no upcall any more.
    pub(super) fn remove(&mut self, task: u32, upcall: &Upcall) {
        if let Some(bands) = &mut self.bands {
            bands.remove(&Task::from(upcall));
        }
        self.awaiting.remove(&task);
        if let Some(exact) = &mut self.exact
            && let Some(id) = exact.ids.remove(&task)
        {
            exact.admission.remove(id);
        }
    }

    /// The exact test one at a time leaves undecided what the one of all decides.
    pub(super) fn give_up(&mut self) {
        self.exact = None;
    }

    /// The exact test of all `upcalls`.
    pub(super) fn examine(
        &self,
        upcalls: Vec<Upcall>,
        blocking: Option<Service>,
    ) -> Result<(), CreateError> {
        let mut contract = Contract::of_upcalls(upcalls);
        contract.tasks.extend(blocking.map(blocking_task));
        admit(&contract, &self.host).map(|_granted| ()).map_err(CreateError::Refused)
    }

    /// The sound test of all `upcalls` inside `reservation`.
    pub(super) fn fit_inside<'a>(
        &self,
        upcalls: impl Iterator<Item = &'a Upcall>,
        reservation: Reservation,
        blocking: Option<Service>,
    ) -> Result<(), CreateError> {
        let mut tasks: Vec<Task> = upcalls.map(Task::from).collect();
        tasks.sort_by_key(Task::min_inter_arrival);
        tasks.extend(blocking.map(blocking_task));
        let load = CpuLoad::new(&tasks, [], self.host.context_switch);
        let supply = Supply::hard_cbs(reservation);
        match fits_inside(Policy::Rmdp, &load, &supply, &mut Steps::default()) {
            Inside::Fits => Ok(()),
            Inside::Late | Inside::Undecided => {
                let why = format!(
                    "inside {reservation} the upcalls are not proven to be in time, because its budget may come late \
                     in each period; reserve more, or at a shorter period"
                );
                let refusal = Refusal::new("reservation-supply", Resource::Cpu, why);
                Err(CreateError::Refused(Box::new(refusal)))
            }
        }
    }

    fn count_in_bands(&mut self, task: &Task) {
        if let Some(bands) = &mut self.bands
            && !bands.add(task, &mut Steps::default())
        {
            self.bands = None;
        }
    }

    fn count_blocking(&mut self, blocking: Option<Service>) {
        let before = std::mem::replace(&mut self.counted, blocking);
        if before == blocking {
            return;
        }
        if let (Some(bands), Some(before)) = (&mut self.bands, before) {
            bands.remove(&blocking_task(before));
        }
        if let Some(blocking) = blocking {
            self.count_in_bands(&blocking_task(blocking));
        }
    }

    /// Brings in whatever awaits it. `None` if that is denied: what came in is in time, and the rest
    /// goes on waiting.
    fn prove_exactly<'a>(
        &mut self,
        upcall_of: &impl Fn(u32) -> Option<&'a Upcall>,
        blocking: Option<Service>,
    ) -> Option<()> {
        let Exact { admission, ids, blocking: counted } = self.exact.as_mut()?;
        if counted.map(|(service, _)| service) != blocking {
            if let Some((_, id)) = counted.take() {
                admission.remove(id);
            }
            if let Some(service) = blocking {
                let id = admission.admit(&blocking_task(service), &mut Steps::default()).ok()?;
                *counted = Some((service, id));
            }
        }
        // Each behind those that are there: it is the only one that has to be examined.
        let awaiting = self.awaiting.iter().filter_map(|&task| Some((task, upcall_of(task)?)));
        let mut awaiting: Vec<(u32, &Upcall)> = awaiting.collect();
        awaiting.sort_by_key(|(_, upcall)| upcall.period());
        for (task, upcall) in awaiting {
            let id = admission.admit(&Task::from(upcall), &mut Steps::default()).ok()?;
            ids.insert(task, id);
            self.awaiting.remove(&task);
        }
        Some(())
    }
}

fn blocking_task(service: Service) -> Task {
    let period = SELDOM.max(service.at_full_speed());
    let spec = TaskSpec::periodic("best effort and containment", period, service);
    Task::new(spec.non_preemptive()).expect("a positive time within its period")
}
