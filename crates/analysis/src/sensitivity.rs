//! How much an admitted contract could grow: each number alone, until the contract no longer fits.

use alloc::vec::Vec;

use punctual_model::{Contract, HostProfile};

use crate::offer::Offer;
use crate::parameters::{Entry, Search};

/// How far the numbers of an admitted contract can go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sensitivity {
    /// Each alone, all others as they are: to a larger wcet, a shorter period, and so on. With
    /// `Offer::to` the contract is admitted; with one unit more it is not. `Offer::to` equal to
    /// `Offer::from`: no further.
    pub numbers: Vec<Offer>,
    /// For how many more the answer was not found within the steps.
    pub undecided: usize,
}

/// For each number of each entry of an admitted `contract`, how far it can go, all others as they
/// are. That the contract is not admitted anywhere beyond is not said (see the counter-offers, found
/// in the same way).
///
/// Together at most `steps`, of which each number gets its share of what is left, at least a 64th: of
/// long contracts few but the first are decided. Of a contract that is not admitted none is.
pub fn sensitivity(contract: &Contract, host: &HostProfile, steps: u64) -> Sensitivity {
    let mut search = Search::new(contract, host, steps);
    let parameters: Vec<_> =
        Entry::all(contract).flat_map(|entry| entry.parameters(contract, host)).collect();
    let count = parameters.len() as u64;
    if !search.begins_admitted() {
        return Sensitivity { numbers: Vec::new(), undecided: parameters.len() };
    }
    let asked = parameters.iter().filter(|parameter| parameter.has_a_way_to_grow()).count();
    let numbers: Vec<Offer> = parameters
        .iter()
        .zip(0..)
        .filter_map(|(parameter, before)| {
            let share = search.left() / (count - before).min(64);
            let to = search.furthest_that_fits(parameter, share)?;
            let (entry, kind) = (parameter.entry.name(contract), parameter.entry.kind(contract));
            Some(Offer { entry, kind, axis: parameter.axis, from: parameter.value, to })
        })
        .collect();
    Sensitivity { undecided: asked - numbers.len(), numbers }
}
