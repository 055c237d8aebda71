//! Reservations: what may be reserved at all, and what the kernel takes.

use alloc::format;
use alloc::vec::Vec;

use punctual_model::{Contract, Duration, HostProfile, Service};

use super::{Failure, Findings};
use crate::knobs::Entry;
use crate::partition::Placement;
use crate::reservation::bandwidth_ppm;
use crate::sched_deadline::{self, LEAST_RUNTIME, Objection};
use crate::supply::roster;
use crate::timetables::{Refused, Timetables};
use crate::verdict::{Resource, Shortfall};

const BANDWIDTH: &str = "reservable-bandwidth";
const SCHED_DEADLINE: &str = "sched-deadline";

pub(super) fn examine(
    contract: &Contract,
    host: &HostProfile,
    placement: &Placement,
    findings: &mut Findings,
) {
    let timetables = &placement.timetables;
    let held = timetables.slots.iter().flatten().count();
    if held > 0 || timetables.refused.is_some() {
        let noun = if held == 1 { "command has" } else { "commands have" };
        let why = format!("{held} {noun} a place in a timetable, slots' costs included");
        findings.add(roster::TEST, why, no_timetable(timetables));
    }
    if timetables.slots.iter().all(Option::is_some) {
        return;
    }
    let place = if contract.cpus == 1 { "" } else { " on the fullest CPU" };
    let most = reserved_on_each(contract, placement).max().unwrap_or(0);
    let why = format!(
        "{most} ppm of the {} ppm that may be reserved of a CPU{place}",
        host.reservable_ppm
    );
    findings.add(BANDWIDTH, why, failing(contract, host, placement));
    let limits = &host.deadline_limits;
    let most = match sched_deadline::bandwidth(limits, 1) {
        Some(bandwidth) => format!("at most {} ppm", sched_deadline::ppm_below(bandwidth)),
        None => "any sum".into(),
    };
    let why = format!(
        "the kernel takes every budget, every period and their sum on each CPU: budgets from \
         {LEAST_RUNTIME}, periods from {} to {}, {most}",
        limits.shortest_period, limits.longest_period
    );
    findings.add(SCHED_DEADLINE, why, kernel_objection(contract, host, placement));
}

fn no_timetable(timetables: &Timetables) -> Option<Failure> {
    let Refused { reservation, resource, shortfall, why } = timetables.refused.clone()?;
    let entry = Some(Entry::Reservation(reservation));
    Some(Failure { test: roster::TEST, resource, entry, shortfall, why })
}

/// The first reservation, in file order, that does not fit beside those before it (one CPU) or
/// that found no CPU.
pub(super) fn failing(
    contract: &Contract,
    host: &HostProfile,
    placement: &Placement,
) -> Option<Failure> {
    let mut used = placement.timetables.ppm_on(0);
    let mut taken = 0;
    let is_free = |at: &usize| placement.timetables.slots[*at].is_none();
    let at = (0..contract.reservations.len()).filter(is_free).find(|&at| {
        let reservation = contract.reservations[at].reservation;
        taken = used;
        used += bandwidth_ppm([reservation]);
        placement.reservation_cpus[at].is_none() || contract.cpus == 1 && used > host.reservable_ppm
    })?;
    if contract.cpus > 1 {
        taken = least_reserved(contract, placement);
    }
    let named = &contract.reservations[at];
    let wanted = named.reservation.utilisation_ppm();
    let left = host.reservable_ppm.saturating_sub(taken);
    let budget = u128::from(left) * u128::from(named.reservation.period().as_nanos()) / 1_000_000;
    let excess = u128::from(named.reservation.budget().as_nanos()).saturating_sub(budget);
    let excess = Service::from_nanos(u64::try_from(excess).unwrap_or(u64::MAX));
    Some(Failure {
        test: BANDWIDTH,
        resource: Resource::Bandwidth,
        entry: Some(Entry::Reservation(at)),
        shortfall: Some(Shortfall::Time(excess.at_full_speed())),
        why: format!(
            "reservation \"{}\" of {} wants {wanted} ppm of a CPU and {left} ppm of {} are left, so \
             its budget is {excess} too large",
            named.name, named.reservation, host.reservable_ppm
        ),
    })
}

/// The first reservation, CPU by CPU, that the kernel would refuse. A root domain may be as small as
/// one CPU; and where it is larger, what fits on each of its CPUs fits together.
pub(super) fn kernel_objection(
    contract: &Contract,
    host: &HostProfile,
    placement: &Placement,
) -> Option<Failure> {
    (0..contract.cpus).find_map(|cpu| {
        let is_free = |at: &usize| placement.timetables.slots[*at].is_none();
        let here: Vec<usize> = placement.reservations_on(cpu).filter(is_free).collect();
        let requests = here.iter().map(|&at| contract.reservations[at].reservation.into());
        let (refused, objection) =
            sched_deadline::admit(&host.deadline_limits, 1, requests).err()?;
        let named = &contract.reservations[here[refused]];
        let shortfall = match objection {
            Objection::Bandwidth { wanted, left } => {
                let missing = u128::from(wanted - left);
                let excess = missing * u128::from(named.reservation.period().as_nanos());
                u64::try_from(excess.div_ceil(1 << 20)).ok()
            }
            Objection::RuntimeTooShort { runtime } => {
                Some(LEAST_RUNTIME.as_nanos() - runtime.as_nanos())
            }
            Objection::PeriodOutside { period, shortest, longest } => {
                let short = shortest.saturating_sub(period);
                Some(short.max(period.saturating_sub(longest)).as_nanos())
            }
            Objection::RuntimeAboveDeadline { .. } | Objection::DeadlineAbovePeriod { .. } => None,
        };
        Some(Failure {
            test: SCHED_DEADLINE,
            resource: Resource::Bandwidth,
            entry: Some(Entry::Reservation(here[refused])),
            shortfall: shortfall.map(|nanos| Shortfall::Time(Duration::from_nanos(nanos))),
            why: format!("reservation \"{}\" {objection}", named.name),
        })
    })
}

fn least_reserved(contract: &Contract, placement: &Placement) -> u64 {
    reserved_on_each(contract, placement).min().unwrap_or(0)
}

/// CPU by CPU, in parts per million.
fn reserved_on_each(contract: &Contract, placement: &Placement) -> impl Iterator<Item = u64> {
    (0..contract.cpus).map(move |cpu| {
        let is_free = |at: &usize| placement.timetables.slots[*at].is_none();
        let here = placement.reservations_on(cpu).filter(is_free);
        let free = bandwidth_ppm(here.map(|at| contract.reservations[at].reservation));
        free + placement.timetables.ppm_on(cpu)
    })
}
