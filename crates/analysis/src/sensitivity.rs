//! Sensitivity analysis: how far each number of an admitted contract can go alone until the
//! contract no longer fits.

use alloc::vec::Vec;

use punctual_model::{Contract, HostProfile};

use crate::entry::Entry;
use crate::offer::Offer;
use crate::parameters::Search;

/// How far the numbers of an admitted contract can go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sensitivity {
    /// The limit of each number alone, with all others unchanged: a larger wcet, a shorter period,
    /// and so on. With `Offer::to` the contract is admitted; with one unit more it is not. If
    /// `Offer::to` equals `Offer::from`, the number cannot move.
    pub numbers: Vec<Offer>,
    /// The number of parameters that were not decided within the steps.
    pub undecided: usize,
}

/// Finds for each number of each entry of an admitted `contract` how far it can go, with all others
/// unchanged. There may be admitted numbers beyond that limit (as with the counter-offers, which
/// are found in the same way).
///
/// The search takes at most `steps`. Each number gets its share of the remaining steps, at least a
/// 64th, so in long contracts only the first few are decided. If the contract is not admitted, none
/// is.
pub fn sensitivity(contract: &Contract, host: &HostProfile, steps: u64) -> Sensitivity {
    let mut search = Search::new(contract, host, steps);
    let parameters: Vec<_> =
        Entry::all(contract).flat_map(|entry| entry.parameters(contract, host)).collect();
    let count = parameters.len() as u64;
    if !search.contract_is_admitted() {
        return Sensitivity { numbers: Vec::new(), undecided: parameters.len() };
    }
    let asked = parameters.iter().filter(|parameter| parameter.has_known_direction()).count();
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
