//! Reservations: those in timetables, the limit on what may be reserved, and the kernel's limits.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use punctual_model::command::{Backend, Holding};
use punctual_model::units::percent;
use punctual_model::{Contract, Duration, HostProfile};

use super::{Failure, Findings};
use crate::entry::Entry;
use crate::sched_deadline::{self, LEAST_RUNTIME};
use crate::steps::Steps;
use crate::supply::followed;
use crate::supply::together::bound_first;
use crate::system::{BANDWIDTH, Request, SCHED_DEADLINE, SERVER, System};
use crate::verdict::{Refusal, Shortfall};

/// Enters the reservations of `contract` that are present: first those of commands in timetables, then
/// those in servers, then those of the kernel's commands, then all others. Continues after a refused
/// one.
pub(super) fn enter<'a>(
    contract: &'a Contract,
    system: &'a mut System<Entry>,
    is_there: impl Fn(usize) -> bool,
    steps: &'a mut Steps,
) -> impl Iterator<Item = Failure> {
    let commands: Vec<(&str, Holding)> =
        contract.commands.iter().filter_map(|of| Some((of.name(), of.held()?))).collect();
    let backend_of = |held: &Holding| held.backend.unwrap_or(Backend::Timetable);
    let of_backend = |backend| {
        let of_it = commands.iter().filter(|(_, held)| backend_of(held) == backend);
        let here: Vec<_> = of_it.copied().collect();
        bound_first(here.iter().map(|(_, held)| held.cpu)).map(|at| here[at]).collect::<Vec<_>>()
    };
    let backends = [Backend::Timetable, Backend::Server, Backend::Kernel];
    let commands: Vec<_> = backends.into_iter().flat_map(of_backend).collect();
    let is_bare = |at: &usize| commands.iter().all(|(_, holding)| holding.reservation != *at);
    let bare = (0..contract.reservations.len()).filter(is_bare);
    let bare: Vec<usize> = bare.filter(|at| is_there(*at)).collect();
    let of_commands = commands.into_iter().map(move |(name, holding)| {
        let Holding { reservation, enforcement, cpu, .. } = holding;
        (reservation, Some((name, enforcement, backend_of(&holding), cpu)))
    });
    of_commands.chain(bare.into_iter().map(|at| (at, None))).filter_map(|(at, command)| {
        let named = &contract.reservations[at];
        let reservation = named.reservation;
        let (whose, request) = match command {
            Some((name, enforcement, backend, cpu)) => (
                format!("command \"{name}\""),
                Request::Command { reservation, enforcement, backend, cpu },
            ),
            None => (
                format!("reservation \"{}\" of {reservation}", named.name),
                Request::Deadline(reservation),
            ),
        };
        let refusal = *system.admit(Entry::Reservation(at), request, steps).err()?;
        let Refusal { test, resource, shortfall, why, .. } = refusal;
        let shortfall = shortfall.map(|shortfall| match shortfall {
            Shortfall::Share(ppm) => {
                let nanos = u128::from(ppm) * u128::from(reservation.period().as_nanos());
                let nanos = nanos.div_ceil(1_000_000);
                Shortfall::Time(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
            }
            other => other,
        });
        let entry = Some(Entry::Reservation(at));
        Some(Failure { test, resource, entry, shortfall, why: format!("{whose}: {why}") })
    })
}

/// Reports the tests of the entered reservations, with the failures.
pub(super) fn report(
    contract: &Contract,
    host: &HostProfile,
    system: &System<Entry>,
    failed: Vec<Failure>,
    findings: &mut Findings,
) {
    let mut failed: Vec<Option<Failure>> = failed.into_iter().map(Some).collect();
    let mut first_of = |test: &str| {
        let is_of = |one: &&mut Option<Failure>| one.as_ref().is_some_and(|one| one.test == test);
        failed.iter_mut().find(is_of).and_then(Option::take)
    };
    let held = system.slots().count();
    let no_table = first_of(followed::TEST);
    if held > 0 || no_table.is_some() {
        let noun = if held == 1 { "command has" } else { "commands have" };
        let why = format!("{held} {noun} a place in a timetable, slots' costs included");
        findings.add(followed::TEST, why, no_table);
    }
    let served = (0..contract.reservations.len())
        .filter(|&at| system.job_within(Entry::Reservation(at)).is_some())
        .count();
    let not_served = first_of(SERVER);
    if served > 0 || not_served.is_some() {
        let noun = if served == 1 { "command has" } else { "commands have" };
        let why = format!("{served} {noun} a server, in which each job is done within its period");
        findings.add(SERVER, why, not_served);
    }
    let in_timetable = contract.commands.iter().filter_map(punctual_model::Command::held);
    let in_timetable = in_timetable.filter(|held| held.backend == Some(Backend::Timetable)).count();
    if in_timetable == contract.reservations.len() {
        return;
    }
    let place = if contract.cpus == 1 { "a CPU" } else { "all CPUs together" };
    let why = format!(
        "{} of the {} that may be reserved of {place}",
        percent(system.granted_ppm() + system.slots_ppm()),
        percent(system.capacity_ppm())
    );
    findings.add(BANDWIDTH, why, first_of(BANDWIDTH));
    let limits = &host.deadline_limits;
    let most = match sched_deadline::bandwidth(limits, contract.cpus) {
        Some(bandwidth) => {
            let ppm = u64::try_from(sched_deadline::ppm_below(bandwidth)).unwrap_or(u64::MAX);
            format!("at most {}", percent(ppm))
        }
        None => "any sum".into(),
    };
    let why = format!(
        "the kernel takes every budget, every period and their sum: budgets from {LEAST_RUNTIME}, periods from {} to \
         {}, {most}",
        limits.shortest_period, limits.longest_period
    );
    findings.add(SCHED_DEADLINE, why, first_of(SCHED_DEADLINE));
    for failure in failed.into_iter().flatten() {
        findings.fail(failure);
    }
}

/// Returns the CPU of each reservation, by position. A command in a timetable or a server has the CPU
/// of that. A kernel reservation may run on any CPU; it gets one with room for it beside the
/// others, the largest first.
pub(crate) fn cpus(contract: &Contract, host: &HostProfile, system: &System<Entry>) -> Vec<u16> {
    let ppm = |at: usize| contract.reservations[at].reservation.utilisation_ppm();
    let mut left = vec![host.reservable_ppm; contract.cpus.into()];
    let mut cpus = vec![0; contract.reservations.len()];
    let mut largest_first: Vec<usize> = (0..cpus.len()).collect();
    largest_first.sort_by_key(|&at| Reverse(ppm(at)));
    for at in largest_first {
        if let Some(cpu) = system.command_cpu(Entry::Reservation(at)) {
            cpus[at] = host.cpus - 1 - cpu;
        } else if let Some(cpu) = left.iter().position(|&left| ppm(at) <= left) {
            // A reservation that is served in time on any CPU finds one: see
            // `sched_deadline::Shares`.
            left[cpu] -= ppm(at);
            cpus[at] = cpu as u16;
        }
    }
    cpus
}
