//! Fixed priorities, by each model of preemption.

use punctual_analysis::fixed_priority::{floating, last_segment, non_preemptive};
use punctual_analysis::{CpuLoad, Steps};
use punctual_model::Service;
use response_time_analysis as verified;
use verified::fixed_point::SearchResult;
use verified::time::Service as Worked;

use crate::common::{Draw, Ticks};
use crate::{Curve, Must, PLAIN, TICK, arrivals, compare, curve, limit, wcet};

/// Returns the largest `quantum` over the tasks below `at`, less the tick by which it began
/// earlier.
fn blocking(system: &[Ticks], at: usize, quantum: impl Fn(&Ticks) -> u64) -> Worked {
    Worked::from(system[at + 1..].iter().map(quantum).max().unwrap_or(0).saturating_sub(1))
}

#[test]
fn fixed_priority_preemptive() {
    compare(
        1,
        2_000,
        PLAIN,
        Must::Equal,
        |load, _| floating::response_times(load, TICK, &mut Steps::default()),
        |system, at| {
            let curves: Vec<Curve> = system.iter().map(curve).collect();
            verified::fixed_priority::fully_preemptive::dedicated_uniproc_rta(
                &curves[at],
                &curves[..at],
                limit(),
            )
        },
    );
}

fn floating_theirs(system: &[Ticks], at: usize) -> SearchResult {
    use verified::fixed_priority::floating_nonpreemptive::{
        TaskUnderAnalysis, dedicated_uniproc_rta,
    };
    let curves: Vec<Curve> = system.iter().map(curve).collect();
    let blocking_bound = blocking(system, at, |task| task.quantum);
    let task = TaskUnderAnalysis { rbf: &curves[at], blocking_bound };
    dedicated_uniproc_rta(&task, &curves[..at], limit())
}

#[test]
fn fixed_priority_with_floating_quanta() {
    compare(
        2,
        2_000,
        Draw { quanta: true, ..PLAIN },
        Must::Equal,
        |load, _| floating::response_times(load, TICK, &mut Steps::default()),
        floating_theirs,
    );
}

/// With a jitter of its own, their analysis counts a task's releases that are known early among its
/// jobs. In ours, a job that becomes known late has only those of its task's jobs before it that
/// did so too.
#[test]
fn fixed_priority_with_jitter() {
    let how = Draw { quanta: true, jitter: true, ..PLAIN };
    let ours =
        |load: &CpuLoad, _: &[Ticks]| floating::response_times(load, TICK, &mut Steps::default());
    let tally = compare(3, 2_000, how, Must::NotExceed, ours, floating_theirs);
    assert!(tally.below > 100, "{}", tally.below);
}

#[test]
fn fixed_priority_limited_preemption() {
    use verified::fixed_priority::limited_preemptive::{TaskUnderAnalysis, dedicated_uniproc_rta};
    // A quantum ends the job: from one tick to all of it.
    let last = |task: &Ticks| task.quantum.max(1);
    compare(
        4,
        2_000,
        Draw { quanta: true, ..PLAIN },
        Must::Equal,
        |load, system| {
            let last: Vec<_> = system.iter().map(|task| Service::from_nanos(last(task))).collect();
            last_segment::response_times(load, &last, TICK, &mut Steps::default())
        },
        |system, at| {
            let curves: Vec<Curve> = system[..at].iter().map(curve).collect();
            let task = TaskUnderAnalysis {
                wcet: wcet(&system[at]),
                arrivals: &arrivals(&system[at]),
                last_np_segment: Worked::from(last(&system[at])),
                blocking_bound: blocking(system, at, |task| task.quantum),
            };
            dedicated_uniproc_rta(&task, &curves, limit())
        },
    );
}

#[test]
fn fixed_priority_non_preemptive() {
    use verified::fixed_priority::fully_nonpreemptive::{TaskUnderAnalysis, dedicated_uniproc_rta};
    compare(
        5,
        2_000,
        PLAIN,
        Must::Equal,
        |load, _| non_preemptive::response_times(load, TICK, &mut Steps::default()),
        |system, at| {
            let curves: Vec<Curve> = system[..at].iter().map(curve).collect();
            let task = TaskUnderAnalysis {
                wcet: wcet(&system[at]),
                arrivals: &arrivals(&system[at]),
                blocking_bound: blocking(system, at, |task| task.wcet),
            };
            dedicated_uniproc_rta(&task, &curves, limit())
        },
    );
}
