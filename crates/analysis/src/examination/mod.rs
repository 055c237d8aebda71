//! All that admission finds out about a contract: where everything goes, and what is proven there.
//!
//! One decision, in this order: `whole` (streams become upcalls and channels), CPUs, `buffers`,
//! `reservations`, `channels` (their delays beneath the reservations), `tasks` (beneath both). The
//! first that fails names what there is too little of; the later ones are still looked at, so that
//! the answer shows all it can.

mod buffers;
mod channels;
mod reservations;
mod tasks;
mod whole;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use punctual_model::{Contract, Duration, HostProfile};

use self::whole::Whole;
use crate::channel::DelayBound;
use crate::knobs::Entry;
use crate::load::CpuLoad;
use crate::mapping::Mapping;
use crate::partition::{self, Placement};
use crate::policies;
use crate::steps::Steps;
use crate::verdict::{Resource, Shortfall, TestReport};

pub(crate) use channels::rank_of_each;

/// What finding bounds may use where the verdict does not need them, for all CPUs together.
pub(crate) const BOUNDS: u64 = Steps::ADMISSION / 4;

/// Whether `contract` would be admitted; cheaper than [`crate::admit`], and undecided is no.
pub(crate) fn fits(contract: &Contract, host: &HostProfile, steps: &mut Steps) -> bool {
    if contract.cpus > host.cpus {
        return false;
    }
    let Ok(whole) = Whole::of(contract, host) else { return false };
    if buffers::failure(&whole).is_some() || !channels::fit(&whole, host, steps) {
        return false;
    }
    let contract = whole.contract();
    let (handlers, timetables) = (channels::load(&whole, host), whole.timetables.clone());
    if timetables.refused.is_some() {
        return false;
    }
    let placement = partition::place(contract, host, handlers, timetables, steps);
    if contract.cpus > 1 {
        // Each CPU was judged while it was filled.
        return placement.task_cpus.iter().chain(&placement.reservation_cpus).all(Option::is_some)
            && reservations::kernel_objection(contract, host, &placement).is_none();
    }
    reservations::failing(contract, host, &placement).is_none()
        && reservations::kernel_objection(contract, host, &placement).is_none()
        && policies::of(contract.policy).fits(&placement.load(contract, host, 0), steps)
}

/// All that the first CPU has to do, the channels included; `None` where a stream cannot be mapped.
pub(crate) fn load_of_first_cpu(contract: &Contract, host: &HostProfile) -> Option<CpuLoad> {
    let whole = Whole::of(contract, host).ok()?;
    let contract = whole.contract();
    let (handlers, timetables) = (channels::load(&whole, host), whole.timetables.clone());
    let placement = partition::place(contract, host, handlers, timetables, &mut Steps::new(0));
    Some(placement.load(contract, host, 0))
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
    /// `None` if the host has too few CPUs, or a stream cannot be mapped.
    pub(crate) placement: Option<Placement>,
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
    let whole = match Whole::of(contract, host) {
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
    let (handlers, timetables) = (channels::load(&whole, host), whole.timetables.clone());
    let placement = partition::place(whole.contract(), host, handlers, timetables, steps);
    reservations::examine(whole.contract(), host, &placement, &mut findings);
    let delays = channels::examine(&whole, host, steps, bounds_within, &mut findings);
    let bounds = tasks::examine(&whole, host, &placement, steps, bounds_within, &mut findings);
    Examination {
        buffers: buffers::of_each(&whole),
        placement: Some(placement),
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
        self.failure = self.failure.take().or(failure);
    }
}

impl Examination {
    fn nothing_placed(contract: &Contract, failure: Failure) -> Self {
        let (test, why) = (failure.test, failure.why.clone());
        Self {
            contract: contract.clone(),
            mappings: Vec::new(),
            placement: None,
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
