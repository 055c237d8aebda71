//! Jobs that are not preempted, or only at some points, under fixed priorities.

use punctual_analysis::fixed_priority::{last_segment, non_preemptive};
use punctual_analysis::{Granularity, Steps};
use punctual_model::Service;

use crate::common::{TICK, in_ticks, load, plain};
use crate::{DISCRETE, known, with_quanta};

fn without_preemption(tasks: &[(u64, u64)], granularity: Granularity) -> Vec<Option<u64>> {
    let load = load(&plain(tasks));
    in_ticks(&non_preemptive::response_times(&load, granularity, &mut Steps::default()))
}

#[test]
fn np_01_three_non_preemptive_tasks() {
    let system = [(20, 70), (20, 80), (35, 200)];
    assert_eq!(without_preemption(&system, DISCRETE), known([54, 74, 75]));
    assert_eq!(without_preemption(&system, Granularity::Continuous), known([55, 75, 75]));
}

#[test]
fn np_03_non_preemptive_overload() {
    let system = [(10, 20), (20, 50), (30, 200)];
    assert_eq!(without_preemption(&system, DISCRETE), [Some(39), Some(79), None]);
}

#[test]
fn lp_01_known_last_segments() {
    let load = load(&with_quanta(&[(4, 12, 2), (6, 20, 3), (8, 40, 4)]));
    let last = [2, 3, 3].map(|ticks| Service::from_nanos(ticks * TICK));
    let times = |granularity| {
        let steps = &mut Steps::default();
        in_ticks(&last_segment::response_times(&load, &last, granularity, steps))
    };
    assert_eq!(times(DISCRETE), known([7, 13, 22]));
    assert_eq!(times(Granularity::Continuous), known([8, 14, 22]));
}
