//! Two numbers changed together, where one alone would have to change too much.

use alloc::vec::Vec;

use punctual_model::{Contract, HostProfile};

use crate::knobs::{Entry, Knob, Search};
use crate::offer::{Axis, Offer};

/// Pairs of changes with each of which all of the contract of `search` is admitted: the work and the time of
/// `first`, and its work and that of `second`.
pub(super) fn find(
    search: &mut Search<'_>,
    contract: &Contract,
    host: &HostProfile,
    first: Entry,
    second: Option<Entry>,
) -> Vec<[Offer; 2]> {
    let knob = |entry: Entry, among: &[Axis]| {
        let knobs = entry.knobs(contract, host);
        among.iter().find_map(|axis| knobs.iter().copied().find(|knob| knob.axis == *axis))
    };
    let Some(work) = knob(first, WORK) else { return Vec::new() };
    let others = [knob(first, TIME), second.and_then(|entry| knob(entry, WORK))];
    let offer = |knob: &Knob, to| Offer {
        entry: knob.entry.name(contract),
        kind: knob.entry.kind(contract),
        axis: knob.axis,
        from: knob.value,
        to,
    };
    let pair = |other: Knob| {
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
