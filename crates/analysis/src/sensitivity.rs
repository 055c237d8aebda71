//! How much an admitted contract could grow: each number alone, until the contract no longer fits.

use alloc::vec::Vec;

use punctual_model::{Contract, HostProfile};

use crate::knobs::{Entry, Search};
use crate::offer::Offer;

/// For each number of each entry of an admitted `contract`, how far it can go, all others as they
/// are: to a larger wcet, a shorter period, and so on. `Offer::to` equal to `Offer::from`: no
/// further. The contract is still admitted there, and is not with one unit more; that it is not
/// admitted anywhere beyond is not said (see the counter-offers, found in the same way).
///
/// Together at most `steps`: what is not reached within them is reported as not going further, and
/// so is every number of a contract that is not admitted.
pub fn sensitivity(contract: &Contract, host: &HostProfile, steps: u64) -> Vec<Offer> {
    let mut search = Search::new(contract, host, steps);
    let entries = Entry::all(contract);
    let knobs = entries.flat_map(|entry| entry.knobs(contract, host));
    knobs
        .filter_map(|knob| {
            let to = search.furthest_that_fits(&knob)?;
            let (entry, kind) = (knob.entry.name(contract), knob.entry.kind(contract));
            Some(Offer { entry, kind, axis: knob.axis, from: knob.value, to })
        })
        .collect()
}
