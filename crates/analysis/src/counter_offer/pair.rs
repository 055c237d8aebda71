//! Two numbers changed together, where one alone would have to change too much.

use alloc::vec::Vec;

use punctual_model::{Contract, HostProfile};

use crate::offer::{Axis, Offer};
use crate::parameters::{Entry, Parameter, Search};

/// Pairs of changes with each of which all of the contract of `search` is admitted: the work and the time of
/// `first`, and its work and that of `second`.
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
        // Where one of them can stay, it was no matter of two.
        let both = first != work.value && second != other.value;
        both.then(|| [offer(&work, first), offer(&other, second)])
    };
    others.into_iter().flatten().filter_map(pair).collect()
}

/// What an entry does each time.
const WORK: &[Axis] = &[Axis::Wcet, Axis::Batch, Axis::Budget, Axis::Size];

/// How often, or until when.
const TIME: &[Axis] = &[Axis::Period, Axis::Rate, Axis::Delay];
