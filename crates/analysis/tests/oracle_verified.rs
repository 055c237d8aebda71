//! Response times against the crate `response-time-analysis`, whose analyses are transcribed from
//! theorems proven in Coq: an oracle that shares nothing with this code.
//!
//! It works in discrete time, so [`Granularity::Ticks`]; a tick is a nanosecond. It takes a job to be
//! released when it becomes known; here the release is the nominal one, so its bounds lack the own
//! jitter and count the own jobs with it. They are compared without jitter for equality, and with
//! jitter for the sum.
//!
//! Where its bound is looser, ours is never above it: each test says where and why.

mod common;

use common::{Draw, Ticks, draw};
use punctual_analysis::edf::response_time as edf;
use punctual_analysis::fixed_priority::{
    ResponseTime, floating, last_segment, non_preemptive as fixed_non_preemptive,
};
use punctual_analysis::{CpuLoad, Granularity, Steps, fifo};
use punctual_model::{Duration, Service, Task, TaskSpec};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use response_time_analysis as verified;
use verified::arrival::Sporadic;
use verified::demand::RBF;
use verified::fixed_point::SearchResult;
use verified::time::{Duration as Ticked, Service as Worked};
use verified::wcet::Scalar;

const TICK: Granularity = Granularity::Ticks(1);

/// Where their search ends: busy windows at a utilisation of one may not close. Ours have a bound
/// there; those are not compared.
const LIMIT: u64 = 3_000;

type Curve = RBF<Sporadic, Scalar>;

fn load(system: &[Ticks]) -> CpuLoad {
    let task = |ticks: &Ticks| {
        Task::new(TaskSpec {
            relative_deadline: Duration::from_nanos(ticks.deadline),
            release_jitter: Duration::from_nanos(ticks.jitter),
            quantum: Service::from_nanos(ticks.quantum),
            ..TaskSpec::periodic(
                "t",
                Duration::from_nanos(ticks.period),
                Service::from_nanos(ticks.wcet),
            )
        })
        .expect("a valid task")
    };
    CpuLoad::new(&system.iter().map(task).collect::<Vec<_>>(), [], Service::ZERO)
}

fn arrivals(task: &Ticks) -> Sporadic {
    Sporadic::new(Ticked::from(task.period), Ticked::from(task.jitter))
}

fn wcet(task: &Ticks) -> Scalar {
    Scalar::new(Worked::from(task.wcet))
}

fn curve(task: &Ticks) -> Curve {
    RBF::new(arrivals(task), wcet(task))
}

fn limit() -> Ticked {
    Ticked::from(LIMIT)
}

/// The largest of `quantum` over the tasks below `at`, less the tick by which it began before.
fn blocking(system: &[Ticks], at: usize, quantum: impl Fn(&Ticks) -> u64) -> Worked {
    Worked::from(system[at + 1..].iter().map(quantum).max().unwrap_or(0).saturating_sub(1))
}

fn nanos(time: ResponseTime) -> Option<u64> {
    match time {
        ResponseTime::AtMost(bound) => Some(bound.as_nanos()),
        ResponseTime::Unbounded => None,
        ResponseTime::Undecided { .. } => panic!("undecided"),
    }
}

/// How the two sides compare.
#[derive(Clone, Copy, PartialEq)]
enum Must {
    Equal,
    /// Ours is not above theirs.
    NotExceed,
}

#[derive(Default)]
struct Tally {
    equal: usize,
    below: usize,
}

/// Draws `rounds` systems, analyses each on both sides, task by task.
fn compare(
    seed: u64,
    rounds: usize,
    how: Draw,
    must: Must,
    ours: impl Fn(&CpuLoad, &[Ticks]) -> Vec<ResponseTime>,
    theirs: impl Fn(&[Ticks], usize) -> SearchResult,
) -> Tally {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut tally = Tally::default();
    for round in 0..rounds {
        let system = draw(&mut rng, how);
        let times = ours(&load(&system), &system);
        for (at, &time) in times.iter().enumerate() {
            let Ok(bound) = theirs(&system, at) else { continue };
            let bound = u64::from(bound) + system[at].jitter;
            let time = nanos(time).expect("theirs is finite");
            let what = format!("round {round} task {at}: {time}, theirs {bound}: {system:?}");
            assert!(time == bound || must == Must::NotExceed && time < bound, "{what}");
            *(if time == bound { &mut tally.equal } else { &mut tally.below }) += 1;
        }
    }
    assert!(2 * tally.equal > rounds, "{} equal in {rounds} rounds", tally.equal);
    tally
}

const PLAIN: Draw =
    Draw { tasks: 5, longest: 24, jitter: false, quanta: false, any_deadline: true };

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

/// With jitter of its own, a task's releases that are known early count among its jobs there; here a
/// job that became known late has, of its own task, only those before it that were too.
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
    // Where there is a quantum, it ends the job: from one tick to all of it.
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
        |load, _| fixed_non_preemptive::response_times(load, TICK, &mut Steps::default()),
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

fn fifo_theirs(system: &[Ticks], _: usize) -> SearchResult {
    let curves: Vec<Curve> = system.iter().map(curve).collect();
    verified::fifo::dedicated_uniproc_rta(&verified::demand::Slice::of(&curves), limit())
}

#[test]
fn first_in_first_out() {
    let ours = |load: &CpuLoad, _: &[Ticks]| fifo::response_times(load, &mut Steps::default());
    compare(9, 2_000, PLAIN, Must::Equal, ours, fifo_theirs);
    // With jitter theirs counts the own early releases too.
    let tally =
        compare(10, 2_000, Draw { jitter: true, ..PLAIN }, Must::NotExceed, ours, fifo_theirs);
    assert!(tally.below > 100, "{}", tally.below);
}

/// Short periods, jitter up to several of them: the draw reaches what the tests are about.
#[test]
fn the_draws_hold_bursts_and_full_loads() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let how = Draw { quanta: true, jitter: true, ..PLAIN };
    let systems: Vec<_> = (0..1_000).map(|_| draw(&mut rng, how)).collect();
    let bursts = systems.iter().flatten().filter(|task| task.jitter > task.period).count();
    let full = systems.iter().filter(|system| common::utilisation(system) > 0.9).count();
    assert!(bursts > 100 && full > 300, "{bursts} bursts, {full} full");
}
