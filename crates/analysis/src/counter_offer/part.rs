//! The part of a contract that fits as declared.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;

use punctual_model::command::Holding;
use punctual_model::{Contract, HostProfile};

use super::share;
use crate::entry::Entry;
use crate::examination::{examine, fits};
use crate::steps::Steps;

/// The number of entries that are left out one by one, and that are tried again at the end.
const ONE_BY_ONE: usize = 16;

/// The largest number of entries that may be examined again for each one left out.
const FEW: usize = 256;

/// Returns a small set of entries without which `contract` is admitted, not necessarily the
/// smallest. Returns `None` if less than half of the entries could stay, or if no set was found
/// within `steps`. A command without its reservation is an ordinary program.
///
/// Two methods compete, and the one that keeps more entries wins: the failing entry is left out
/// repeatedly, or as many of the smallest entries as fit are kept. An entry that was left out comes
/// back if it fits after all.
pub(super) fn left_out(
    contract: &Contract,
    host: &HostProfile,
    steps: &mut Steps,
) -> Option<Vec<Entry>> {
    let all: Vec<Entry> = Entry::all(contract).collect();
    let mut part = Part { contract, host, steps };
    let found = [part.without_largest(&all), part.without_failing(all.len())];
    let mut out = found.into_iter().flatten().min_by_key(Vec::len)?;
    out.sort_by_key(|&entry| share(contract, entry));
    let mut at = 0;
    for _ in 0..ONE_BY_ONE.min(out.len()) {
        let back = out.remove(at);
        if !part.fits_without(&out) {
            out.insert(at, back);
            at += 1;
        }
    }
    (2 * out.len() <= all.len() && part.is_admitted_without(&out)).then_some(out)
}

struct Part<'a> {
    contract: &'a Contract,
    host: &'a HostProfile,
    steps: &'a mut Steps,
}

impl Part<'_> {
    fn without_failing(&mut self, entries: usize) -> Option<Vec<Entry>> {
        let mut out = Vec::new();
        while entries <= FEW && out.len() < ONE_BY_ONE {
            let (trial, kept) = without(self.contract, &out);
            let examined = examine(&trial, self.host, self.steps, 0);
            let Some(failure) = examined.failure else { return Some(out) };
            let failed = failure.entry?;
            let kept = kept.iter().find(|(_, now)| *now == failed);
            out.push(kept.map(|(before, _)| *before)?);
        }
        None
    }

    /// Bisects over the number of the largest entries that are left out.
    fn without_largest(&mut self, all: &[Entry]) -> Option<Vec<Entry>> {
        let mut largest_first = all.to_vec();
        largest_first.sort_by_key(|&entry| Reverse(share(self.contract, entry)));
        let (mut too_few, mut enough) = (0, all.len());
        while enough - too_few > 1 {
            let middle = too_few.midpoint(enough);
            if self.fits_without(&largest_first[..middle]) {
                enough = middle;
            } else {
                too_few = middle;
            }
        }
        largest_first.truncate(enough);
        (enough < all.len()).then_some(largest_first)
    }

    fn fits_without(&mut self, out: &[Entry]) -> bool {
        // Copying the remaining entries costs time as well.
        self.steps.take(50 * Entry::all(self.contract).count()).is_ok()
            && fits(&without(self.contract, out).0, self.host, self.steps)
    }

    /// Examines the remaining entries like a new request.
    fn is_admitted_without(&self, out: &[Entry]) -> bool {
        let trial = without(self.contract, out).0;
        let mut steps = Steps::for_tasks(trial.tasks.len());
        examine(&trial, self.host, &mut steps, 0).failure.is_none()
    }
}

/// Returns `contract` without the entries `out`, and the old and new position of each entry that
/// stays.
fn without(contract: &Contract, out: &[Entry]) -> (Contract, Vec<(Entry, Entry)>) {
    let mut trial = contract.clone();
    let [mut tasks, mut reservations, mut channels, mut streams] =
        [(); 4].map(|()| BTreeSet::new());
    let mut upcalls = BTreeSet::new();
    for &entry in out {
        match entry {
            Entry::Task(at) => {
                tasks.insert(at);
                upcalls.insert(contract.tasks[at].name());
            }
            Entry::Reservation(at) => _ = reservations.insert(at),
            Entry::Channel(at) => _ = channels.insert(at),
            Entry::Stream(at) => _ = streams.insert(at),
            Entry::Receiving(_) | Entry::Command(_) | Entry::Sending | Entry::System => {}
        }
    }
    let mut stays = Vec::new();
    stays.extend(keep(&mut trial.tasks, &tasks, Entry::Task));
    stays.extend(keep(&mut trial.reservations, &reservations, Entry::Reservation));
    for command in &mut trial.commands {
        let held = command.held().filter(|held| !reservations.contains(&held.reservation));
        *command = command.under(held.map(|held| Holding {
            reservation: held.reservation - reservations.range(..held.reservation).count(),
            ..held
        }));
    }
    stays.extend(keep(&mut trial.channels, &channels, Entry::Channel));
    stays.extend(keep(&mut trial.streams, &streams, Entry::Stream));
    trial.upcalls.retain(|upcall| !upcalls.contains(upcall.name()));
    (trial, stays)
}

/// Removes the `gone` entries, and returns the old and new position of each that stays.
fn keep<T>(
    entries: &mut Vec<T>,
    gone: &BTreeSet<usize>,
    of: fn(usize) -> Entry,
) -> Vec<(Entry, Entry)> {
    let stays = (0..entries.len()).filter(|at| !gone.contains(at)).zip(0..);
    let stays = stays.map(|(was, is)| (of(was), of(is))).collect();
    let mut before = 0..;
    entries.retain(|_| before.next().is_some_and(|at| !gone.contains(&at)));
    stays
}
