//! First in, first out: one bound for all.

use punctual_analysis::{CpuLoad, Steps, fifo};
use response_time_analysis as verified;
use verified::fixed_point::SearchResult;

use crate::common::{Draw, Ticks};
use crate::{Curve, Must, PLAIN, compare, curve, limit};

fn fifo_theirs(system: &[Ticks], _: usize) -> SearchResult {
    let curves: Vec<Curve> = system.iter().map(curve).collect();
    verified::fifo::dedicated_uniproc_rta(&verified::demand::Slice::of(&curves), limit())
}

#[test]
fn first_in_first_out() {
    let ours = |load: &CpuLoad, _: &[Ticks]| fifo::response_times(load, &mut Steps::default());
    compare(9, 2_000, PLAIN, Must::Equal, ours, fifo_theirs);
    // With jitter, theirs counts the task's own early releases too.
    let tally =
        compare(10, 2_000, Draw { jitter: true, ..PLAIN }, Must::NotExceed, ours, fifo_theirs);
    assert!(tally.below > 100, "{}", tally.below);
}
