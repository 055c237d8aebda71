//! The examination of a contract: it is entered into a [`System`], and all findings on the way are
//! kept.
//!
//! The order is `expanded` (streams become upcalls and channels), CPUs, `buffers`, `memory`,
//! `reservations`, `channels` (beneath the reservations), `tasks` (beneath both). [`fits`] returns only the verdict
//! and stops at the first refusal. [`examine`] reports the first refusal, which names the scarce
//! resource, and still enters the later parts, so that the answer shows as much as possible.

mod buffers;
mod channels;
mod expanded;
mod memory;
mod reservations;
mod tasks;

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use punctual_model::command::Backend;
use punctual_model::{Contract, Duration, HostProfile};

use self::expanded::Expanded;
use crate::channel::DelayBound;
use crate::entry::Entry;
use crate::load::CpuLoad;
use crate::mapping::Mapping;
use crate::steps::Steps;
use crate::system::System;
use crate::verdict::{Resource, Shortfall, TestReport};

pub(crate) use channels::rank_of_each;
pub(crate) use reservations::cpus as cpus_of_reservations;
pub(crate) use tasks::Placed;

/// The steps, for all CPUs together, to find bounds that the verdict does not need.
pub(crate) const BOUNDS: u64 = Steps::ADMISSION / 4;

/// Returns whether `contract` would be admitted. This is cheaper than [`crate::admit`]; undecided
/// counts as no.
pub(crate) fn fits(contract: &Contract, host: &HostProfile, steps: &mut Steps) -> bool {
    fits_as_declared(&with_back_ends(contract, host, steps), host, steps)
}

/// Returns `contract` with a back end for each command: those that ask for none have servers, which
/// run them when they wake, if the whole contract is admitted so. If not, they have timetables,
/// which hold more.
fn with_back_ends<'a>(
    contract: &'a Contract,
    host: &HostProfile,
    steps: &mut Steps,
) -> Cow<'a, Contract> {
    if contract.commands.is_empty() {
        return Cow::Borrowed(contract);
    }
    if contract.may_have_servers_by_default() {
        let served = contract.with_default_backend(Backend::Server);
        let mut half = steps.half();
        let fits = fits_as_declared(&served, host, &mut half);
        steps.put_back(half);
        if fits {
            return Cow::Owned(served);
        }
    }
    Cow::Owned(contract.with_default_backend(Backend::Timetable))
}

fn fits_as_declared(contract: &Contract, host: &HostProfile, steps: &mut Steps) -> bool {
    if contract.cpus > host.cpus {
        return false;
    }
    let Ok(whole) = Expanded::of(contract, host) else { return false };
    let mut system = system(whole.contract(), host);
    buffers::failure(&whole).is_none()
        && memory::enter(whole.contract(), &mut system, steps).is_none()
        && reservations::enter(whole.contract(), &mut system, |_| true, steps).next().is_none()
        && channels::enter(&whole, &mut system, steps).is_none()
        && tasks::enter(whole.contract(), host, &mut system, |_| true, steps).admitted
}

/// Enters the entries of `contract` that are there, which are admitted; `None` if something is refused. Streams must be
/// expanded already.
pub(crate) fn enter_those(
    contract: &Contract,
    host: &HostProfile,
    is_there: impl Fn(Entry) -> bool,
) -> Option<System<Entry>> {
    let steps = &mut Steps::for_tasks(contract.tasks.len());
    let contract = &with_back_ends(contract, host, steps);
    let whole = Expanded::of(contract, host).ok()?;
    let mut system = system(contract, host);
    let is_reserved = |at| is_there(Entry::Reservation(at));
    if reservations::enter(contract, &mut system, is_reserved, steps).next().is_some()
        || channels::enter(&whole, &mut system, steps).is_some()
        || !tasks::enter(contract, host, &mut system, |at| is_there(Entry::Task(at)), steps)
            .admitted
    {
        return None;
    }
    Some(system)
}

/// Creates the system of CPUs that a contract asks for, which the host must have.
fn system(contract: &Contract, host: &HostProfile) -> System<Entry> {
    System::under(contract.policy, contract.cpus, *host)
}

/// Returns all work of the first CPU, including the channels, or `None` if a stream cannot be
/// mapped.
pub(crate) fn load_of_first_cpu(contract: &Contract, host: &HostProfile) -> Option<CpuLoad> {
    let steps = &mut Steps::default();
    let contract = &with_back_ends(contract, host, steps);
    let whole = Expanded::of(contract, host).ok()?;
    let mut system = system(whole.contract(), host);
    reservations::enter(whole.contract(), &mut system, |_| true, steps).for_each(drop);
    // The channels' load does not depend on whether they are in time.
    channels::enter(&whole, &mut system, &mut Steps::new(0));
    Some(Placed::on_one(whole.contract()).load(whole.contract(), host, &system, 0))
}

pub(crate) struct Failure {
    pub(crate) test: &'static str,
    pub(crate) resource: Resource,
    /// The entry in the contract as declared.
    pub(crate) entry: Option<Entry>,
    pub(crate) shortfall: Option<Shortfall>,
    pub(crate) why: String,
}

/// All findings of admission about a contract.
pub(crate) struct Examination {
    /// The contract with its streams expanded, or as declared if they cannot be.
    pub(crate) contract: Contract,
    pub(crate) mappings: Vec<Mapping>,
    /// The system and the tasks' CPUs; `None` if the host has too few CPUs or a stream cannot be
    /// mapped.
    pub(crate) entered: Option<(System<Entry>, Placed)>,
    pub(crate) bounds: Vec<Option<Duration>>,
    pub(crate) delays: Vec<Option<Duration>>,
    /// The bytes that each channel may need.
    pub(crate) buffers: Vec<u64>,
    pub(crate) tests: Vec<TestReport>,
    pub(crate) failure: Option<Failure>,
}

/// Decides within `steps`, and finds bounds that the verdict does not need within `bounds_within`.
pub(crate) fn examine(
    contract: &Contract,
    host: &HostProfile,
    steps: &mut Steps,
    bounds_within: u64,
) -> Examination {
    let contract = &with_back_ends(contract, host, steps);
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
    let failure = memory::enter(contract, &mut system, steps);
    memory::report(contract, &system, failure, &mut findings);
    let failed: Vec<Failure> =
        reservations::enter(contract, &mut system, |_| true, steps).collect();
    reservations::report(contract, host, &system, failed, &mut findings);
    let failure = channels::enter(&whole, &mut system, steps);
    let delays = channels::report(&whole, &system, failure, steps, bounds_within, &mut findings);
    let placed = tasks::enter(contract, host, &mut system, |_| true, steps);
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

/// The report of each test, and the first failure.
#[derive(Default)]
struct Findings {
    tests: Vec<TestReport>,
    failure: Option<Failure>,
}

impl Findings {
    /// Adds the report of a deciding test, with `why` if it admits.
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
