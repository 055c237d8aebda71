//! Earliest deadline first, by each model of preemption.

use punctual_analysis::Steps;
use punctual_analysis::edf::response_time as edf;
use response_time_analysis as verified;
use verified::time::{Duration as Ticked, Service as Worked};

use crate::common::Draw;
use crate::{Curve, Must, PLAIN, TICK, arrivals, compare, curve, limit, wcet};

#[test]
fn earliest_deadline_preemptive() {
    use verified::edf::fully_preemptive::{Task, dedicated_uniproc_rta};
    compare(
        6,
        1_000,
        PLAIN,
        Must::Equal,
        |load, _| edf::response_times(load, TICK, &mut Steps::default()),
        |system, at| {
            let curves: Vec<Curve> = system.iter().map(curve).collect();
            let task =
                |at: usize| Task { rbf: &curves[at], deadline: Ticked::from(system[at].deadline) };
            let others: Vec<_> = (0..system.len()).filter(|&o| o != at).map(task).collect();
            dedicated_uniproc_rta(&task(at), &others, limit())
        },
    );
}

/// Their busy window does not count blocking, and ours does; the bounds are the same.
#[test]
fn earliest_deadline_with_floating_quanta() {
    use verified::edf::floating_nonpreemptive::{
        InterferingTask, TaskUnderAnalysis, dedicated_uniproc_rta,
    };
    compare(
        7,
        1_000,
        Draw { quanta: true, ..PLAIN },
        Must::Equal,
        |load, _| edf::response_times(load, TICK, &mut Steps::default()),
        |system, at| {
            let curves: Vec<Curve> = system.iter().map(curve).collect();
            let deadline = |at: usize| Ticked::from(system[at].deadline);
            let others: Vec<_> = (0..system.len())
                .filter(|&other| other != at)
                .map(|other| InterferingTask {
                    rbf: &curves[other],
                    deadline: deadline(other),
                    max_np_segment: Worked::from(system[other].quantum),
                })
                .collect();
            let task = TaskUnderAnalysis { rbf: &curves[at], deadline: deadline(at) };
            dedicated_uniproc_rta(&task, &others, limit())
        },
    );
}

#[test]
fn earliest_deadline_non_preemptive() {
    use verified::edf::fully_nonpreemptive::{Task, dedicated_uniproc_rta};
    compare(
        8,
        1_000,
        PLAIN,
        Must::Equal,
        |load, _| edf::non_preemptive(load, TICK, &mut Steps::default()),
        |system, at| {
            let arrivals: Vec<_> = system.iter().map(arrivals).collect();
            let task = |at: usize| Task {
                wcet: wcet(&system[at]),
                arrivals: &arrivals[at],
                deadline: Ticked::from(system[at].deadline),
            };
            let others: Vec<_> = (0..system.len()).filter(|&o| o != at).map(task).collect();
            dedicated_uniproc_rta(&task(at), &others, limit())
        },
    );
}
