//! A contract, entered into a [`System`], and all that is found out about it on the way.
//!
//! In this order: `whole` (streams become upcalls and channels), CPUs, `buffers`, `reservations`, `channels` (beneath
//! the reservations), `tasks` (beneath both). Who only asks for the verdict ([`fits`]) ends at the first that the system
//! refuses. Who asks for all ([`examine`]) is told the first, which names what there is too little of; and the later
//! ones are still entered, so that the answer shows all it can.

mod buffers;
mod channels;
mod expanded;
mod reservations;
mod tasks;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use punctual_model::{Contract, Duration, HostProfile};

use self::expanded::Expanded;
use crate::channel::DelayBound;
use crate::load::CpuLoad;
use crate::mapping::Mapping;
use crate::parameters::Entry;
use crate::steps::Steps;
use crate::system::System;
use crate::verdict::{Resource, Shortfall, TestReport};

pub(crate) use channels::rank_of_each;
pub(crate) use reservations::cpus as cpus_of_reservations;
pub(crate) use tasks::Placed;

/// What finding bounds may use where the verdict does not need them, for all CPUs together.
pub(crate) const BOUNDS: u64 = Steps::ADMISSION / 4;

/// Whether `contract` would be admitted; cheaper than [`crate::admit`], and undecided is no.
pub(crate) fn fits(contract: &Contract, host: &HostProfile, steps: &mut Steps) -> bool {
    if contract.cpus > host.cpus {
        return false;
    }
    let Ok(whole) = Expanded::of(contract, host) else { return false };
    let mut system = system(whole.contract(), host);
    buffers::failure(&whole).is_none()
        && reservations::enter(whole.contract(), &mut system, steps).next().is_none()
        && channels::enter(&whole, &mut system, steps).is_none()
        && tasks::enter(whole.contract(), host, &mut system, steps).admitted
}

/// Describes the CPUs that a contract asks for, which the host must have.
fn system(contract: &Contract, host: &HostProfile) -> System<Entry> {
    System::under(contract.policy, contract.cpus, *host)
}

/// All that the first CPU has to do, the channels included; `None` where a stream cannot be mapped.
pub(crate) fn load_of_first_cpu(contract: &Contract, host: &HostProfile) -> Option<CpuLoad> {
    let whole = Expanded::of(contract, host).ok()?;
    let mut system = system(whole.contract(), host);
    reservations::enter(whole.contract(), &mut system, &mut Steps::default()).for_each(drop);
    // What they take does not depend on whether they are in time.
    channels::enter(&whole, &mut system, &mut Steps::new(0));
    Some(Placed::on_one(whole.contract()).load(whole.contract(), host, &system, 0))
}

pub(crate) struct Failure {
    pub(crate) test: &'static str,
    pub(crate) resource: Resource,
    /// In the contract as it was declared.
    pub(crate) entry: Option<Entry>,
    pub(crate) shortfall: Option<Shortfall>,
    pub(crate) why: String,
}

/// All that admission finds out about a contract.
pub(crate) struct Examination {
    /// The contract with what its streams became; as declared where that is not known.
    pub(crate) contract: Contract,
    pub(crate) mappings: Vec<Mapping>,
    /// Where everything is; `None` if the host has too few CPUs, or a stream cannot be mapped.
    pub(crate) entered: Option<(System<Entry>, Placed)>,
    pub(crate) bounds: Vec<Option<Duration>>,
    pub(crate) delays: Vec<Option<Duration>>,
    /// The bytes that each channel may need.
    pub(crate) buffers: Vec<u64>,
    pub(crate) tests: Vec<TestReport>,
    pub(crate) failure: Option<Failure>,
}

/// The verdict within `steps`; bounds beyond what it needs within `bounds_within` steps.
pub(crate) fn examine(
    contract: &Contract,
    host: &HostProfile,
    steps: &mut Steps,
    bounds_within: u64,
) -> Examination {
    let whole = match Expanded::of(contract, host) {
        Ok(whole) => whole,
        Err(failure) => return Examination::nothing_placed(contract, failure),
    };
    if contract.cpus > host.cpus {
        return Examination::nothing_placed(contract, too_few_cpus(contract, host));
    }
    let mut findings = Findings::default();
    if !whole.mappings.is_empty() {
        let count = whole.mappings.len();
        let noun = if count == 1 { "stream is" } else { "streams are" };
        let why = format!("{count} {noun} derived as upcalls and channels that keep the delay");
        findings.add("stream-mapping", why, None);
    }
    if let Some(memory) = whole.contract().sender.and_then(|sender| sender.memory) {
        let why = format!("{} B are needed of {memory} B", buffers::needed(&whole));
        findings.add(buffers::TEST, why, buffers::failure(&whole));
    }
    let contract = whole.contract();
    let mut system = system(contract, host);
    let failed: Vec<Failure> = reservations::enter(contract, &mut system, steps).collect();
    reservations::report(contract, host, &system, failed, &mut findings);
    let failure = channels::enter(&whole, &mut system, steps);
    let delays = channels::report(&whole, &system, failure, steps, bounds_within, &mut findings);
    let placed = tasks::enter(contract, host, &mut system, steps);
    let bounds = tasks::report(&whole, host, &system, &placed, steps, bounds_within, &mut findings);
    Examination {
        buffers: buffers::of_each(&whole),
        entered: Some((system, placed)),
        bounds,
        delays: delays.into_iter().map(DelayBound::bound).collect(),
        tests: findings.tests,
        failure: findings.failure,
        contract: whole.contract().clone(),
        mappings: whole.mappings,
    }
}

/// Test by test, and the first failure.
#[derive(Default)]
struct Findings {
    tests: Vec<TestReport>,
    failure: Option<Failure>,
}

impl Findings {
    /// The report of a test that decides: `why` if it admits.
    fn add(&mut self, name: &'static str, why: String, failure: Option<Failure>) {
        let admits = failure.is_none();
        let why = failure.as_ref().map_or(why, |failure| failure.why.clone());
        self.tests.push(TestReport { name, admits, why });
        failure.into_iter().for_each(|failure| self.fail(failure));
    }

    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }
}

impl Examination {
    fn nothing_placed(contract: &Contract, failure: Failure) -> Self {
        let (test, why) = (failure.test, failure.why.clone());
        Self {
            contract: contract.clone(),
            mappings: Vec::new(),
            entered: None,
            bounds: contract.tasks.iter().map(|_| None).collect(),
            delays: contract.channels.iter().map(|_| None).collect(),
            buffers: contract.channels.iter().map(|_| 0).collect(),
            tests: Vec::from([TestReport { name: test, admits: false, why }]),
            failure: Some(failure),
        }
    }
}

fn too_few_cpus(contract: &Contract, host: &HostProfile) -> Failure {
    let why =
        format!("the contract asks for {} CPUs and the host has {}", contract.cpus, host.cpus);
    Failure { test: "cpus", resource: Resource::Cpus, entry: None, shortfall: None, why }
}
