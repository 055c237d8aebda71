//! Changes of two numbers together, for contracts where one alone would have to change too much.

use alloc::vec::Vec;

use punctual_model::{Contract, HostProfile};

use crate::entry::Entry;
use crate::offer::{Axis, Offer};
use crate::parameters::{Parameter, Search};

/// Returns pairs of changes that each make the contract of `search` admissible: the work and the
/// time of `first`, and the work of `first` and of `second`.
pub(super) fn find(
    search: &mut Search<'_>,
    contract: &Contract,
    host: &HostProfile,
    first: Entry,
    second: Option<Entry>,
) -> Vec<[Offer; 2]> {
    let parameter = |entry: Entry, among: &[Axis]| {
        let parameters = entry.parameters(contract, host);
        among
            .iter()
            .find_map(|axis| parameters.iter().copied().find(|parameter| parameter.axis == *axis))
    };
    let Some(work) = parameter(first, WORK) else { return Vec::new() };
    let others = [parameter(first, TIME), second.and_then(|entry| parameter(entry, WORK))];
    let offer = |parameter: &Parameter, to| Offer {
        entry: parameter.entry.name(contract),
        kind: parameter.entry.kind(contract),
        axis: parameter.axis,
        from: parameter.value,
        to,
    };
    let pair = |other: Parameter| {
        let [first, second] = search.nearest_pair_that_fits([&work, &other])?;
        // If one of the numbers can stay, it is not a change of two.
        let both = first != work.value && second != other.value;
        both.then(|| [offer(&work, first), offer(&other, second)])
    };
    others.into_iter().flatten().filter_map(pair).collect()
}

/// Parameters of an entry's work in each period.
const WORK: &[Axis] = &[Axis::Wcet, Axis::Batch, Axis::Budget, Axis::Size];

/// Parameters of an entry's rate or deadline.
const TIME: &[Axis] = &[Axis::Period, Axis::Rate, Axis::Delay];
