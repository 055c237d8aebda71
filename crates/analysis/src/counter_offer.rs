//! Counter-offers for a refused contract.
//!
//! First, single numbers are changed, one for each that helps. If none does, all work is reduced by
//! the same factor. If no single number helps without being halved or doubled, two numbers are
//! changed together, and the part of the contract that fits as declared is found.

mod pair;
mod part;

use alloc::vec::Vec;
use core::cmp::Reverse;

use punctual_model::{Contract, HostProfile};

use crate::entry::Entry;
use crate::entry::EntryKind;
use crate::examination::examine;
use crate::offer::{Axis, Offer, Offers};
use crate::parameters::Search;
use crate::ratio;
use crate::steps::Steps;

/// The steps of the whole search. If they run out, the offers found so far are returned.
const SEARCH: u64 = Steps::ADMISSION / 2;

/// The steps to search for the work that fits, or for the part of the entries that fits: with
/// thousands of tasks each trial costs much.
const TOGETHER: u64 = 2 * Steps::ADMISSION;

/// The steps to search for pairs of numbers.
const BEYOND: u64 = Steps::ADMISSION / 2;

/// The number of entries beside the failed one that are tried, the largest shares first.
const OTHERS: usize = 4;

/// Returns changes that each make `contract` admissible: of `failed`, of the numbers that all
/// entries share, and of the longest quanta. If no change of `failed` helps, the first other entry
/// with a helpful change takes its place.
pub(crate) fn find(contract: &Contract, host: &HostProfile, failed: Option<Entry>) -> Offers {
    if contract.cpus > host.cpus {
        return with_fewer_cpus(contract, host);
    }
    let (found, modest) = one_number(contract, host, failed);
    let mut offers = Offers::found(found);
    if !modest {
        let all = || Entry::all(contract);
        let largest = |other: Option<Entry>| {
            let those = all().filter(|&entry| Some(entry) != other);
            by_largest(those, |entry| share(contract, entry)).into_iter().next()
        };
        let first = failed.or_else(|| largest(None));
        let mut search = Search::new(contract, host, BEYOND);
        let pairs =
            first.map(|first| pair::find(&mut search, contract, host, first, largest(Some(first))));
        offers.both = pairs.unwrap_or_default().into();
        let steps = &mut Steps::new(TOGETHER);
        let left_out = part::left_out(contract, host, steps).unwrap_or_default();
        let named = |entry: Entry| (entry.kind(contract), entry.name(contract));
        offers.without = left_out.into_iter().map(named).collect();
        offers.of = all().count();
    }
    offers
}

/// Returns offers for a contract that asks for more CPUs than the host has: only as many as it has,
/// and if that is not enough, one other number beside it.
fn with_fewer_cpus(contract: &Contract, host: &HostProfile) -> Offers {
    let cpus = Offer {
        entry: Entry::System.name(contract),
        kind: EntryKind::System,
        axis: Axis::Cpus,
        from: contract.cpus.into(),
        to: host.cpus.into(),
    };
    let Some(fewer) = cpus.taken(contract) else { return Offers::found(Vec::new()) };
    let steps = &mut Steps::for_tasks(fewer.tasks.len());
    let Some(failure) = examine(&fewer, host, steps, 0).failure else {
        return Offers::found(Vec::from([cpus]));
    };
    let (beside, _) = one_number(&fewer, host, failure.entry);
    let mut offers = Offers::found(Vec::new());
    offers.both = beside
        .into_iter()
        .filter(|offer| offer.axis != Axis::Cpus)
        .map(|offer| [cpus.clone(), offer])
        .collect();
    offers
}

/// Returns offers of one number each, and whether one of them is modest.
fn one_number(
    contract: &Contract,
    host: &HostProfile,
    failed: Option<Entry>,
) -> (Vec<Offer>, bool) {
    let mut search = Search::new(contract, host, SEARCH);
    let mut along = |entry: Entry, wanted: fn(Axis) -> bool| -> Vec<Offer> {
        let parameters = entry.parameters(contract, host);
        parameters
            .iter()
            .filter(|parameter| wanted(parameter.axis))
            .filter_map(|parameter| {
                let to = search.nearest_that_fits(parameter)?;
                let (entry, kind) = (entry.name(contract), entry.kind(contract));
                Some(Offer { entry, kind, axis: parameter.axis, from: parameter.value, to })
            })
            .collect()
    };
    let others = || Entry::all(contract).filter(|&other| Some(other) != failed);
    let largest = by_largest(others(), |entry| share(contract, entry)).into_iter();
    let mut offers = failed
        .into_iter()
        .chain(largest.take(OTHERS))
        .map(|entry| along(entry, |_| true))
        .find(|found| !found.is_empty())
        .unwrap_or_default();
    // Blocking by other tasks may make a task late.
    let longest = by_largest(others(), |entry| quantum(contract, entry)).into_iter();
    for other in longest.take(OTHERS).filter(|&other| quantum(contract, other) > 0) {
        if offers.iter().all(|offer| offer.entry != other.name(contract)) {
            offers.extend(along(other, |axis| axis == Axis::Quantum));
        }
    }
    offers.extend(along(Entry::Sending, |_| true));
    offers.extend(along(Entry::System, |axis| axis != Axis::Work));
    let modest = offers.iter().any(is_modest);
    if offers.is_empty() {
        // No number of one entry helps, so a faster link or less work everywhere is tried. The
        // search above may have used up its steps.
        for wanted in [Axis::Bandwidth, Axis::Work] {
            search = Search::new(contract, host, TOGETHER);
            offers.extend(along_one(&mut search, contract, host, wanted));
        }
    }
    (offers, modest)
}

/// Returns `entries` with the largest number first.
fn by_largest<N: Ord>(entries: impl Iterator<Item = Entry>, of: impl Fn(Entry) -> N) -> Vec<Entry> {
    let mut all: Vec<Entry> = entries.collect();
    all.sort_by_key(|&entry| Reverse(of(entry)));
    all
}

/// Returns whether the new number is more than half and less than twice the old one.
fn is_modest(offer: &Offer) -> bool {
    offer.to > offer.from / 2 && offer.to < offer.from.saturating_mul(2)
}

/// Returns a link rate that would do, or how much of the work of all tasks fits.
fn along_one(
    search: &mut Search<'_>,
    contract: &Contract,
    host: &HostProfile,
    wanted: Axis,
) -> Option<Offer> {
    [Entry::Sending, Entry::System].into_iter().find_map(|of| {
        let parameter =
            of.parameters(contract, host).into_iter().find(|parameter| parameter.axis == wanted)?;
        let to = search.nearest_that_fits(&parameter)?;
        let (entry, kind) = (of.name(contract), of.kind(contract));
        Some(Offer { entry, kind, axis: parameter.axis, from: parameter.value, to })
    })
}

/// Returns the longest stretch in which an entry cannot be preempted by other tasks.
fn quantum(contract: &Contract, entry: Entry) -> u64 {
    match entry {
        Entry::Task(at) => contract.tasks[at].quantum().as_nanos(),
        _ => 0,
    }
}

/// Returns the entry's share of a CPU or of the link in units of 2⁻⁶⁴, to order the trials.
fn share(contract: &Contract, entry: Entry) -> u128 {
    let (work, period) = match entry {
        Entry::Task(at) => {
            let task = &contract.tasks[at];
            (task.wcet().as_nanos(), task.min_inter_arrival())
        }
        Entry::Reservation(at) => {
            let reservation = contract.reservations[at].reservation;
            (reservation.budget().as_nanos(), reservation.period())
        }
        Entry::Channel(at) => {
            let (channel, sender) = (&contract.channels[at], contract.sender);
            let arrivals = channel.arrivals();
            let time = sender.map(|sender| sender.link.transmission_time(arrivals.max_message()));
            (time.map_or(0, |time| time.as_nanos()), arrivals.min_inter_arrival())
        }
        Entry::Stream(at) => {
            let spec = contract.streams[at].spec();
            let time = contract.sender.map(|s| s.link.transmission_time(spec.frame_size));
            (time.map_or(0, |time| time.as_nanos()), spec.frame_period)
        }
        Entry::Receiving(_) | Entry::Command(_) | Entry::Sending | Entry::System => return 0,
    };
    ratio::share(work, period.as_nanos())
}
