//! Response times against the crate `response-time-analysis`. Its analyses are transcribed from
//! theorems proven in Coq: an oracle that shares nothing with this code.
//!
//! It works in discrete time, so the comparison uses [`Granularity::Ticks`]; a tick is a
//! nanosecond. There a job is released when it becomes known; here the release is the nominal one,
//! so its bounds do not include the task's own jitter and count its own jobs with it. The bounds
//! are compared without jitter for equality, and with jitter for the sum.
//!
//! If its bound is looser, ours is never above it: each test says where and why.
//!
//! This file has the comparison; there is one file for each policy.

#[path = "../common/mod.rs"]
mod common;
mod earliest_deadline;
mod first_in_first_out;
mod fixed_priority;

use common::{Draw, Ticks, draw};
use punctual_analysis::fixed_priority::ResponseTime;
use punctual_analysis::{CpuLoad, Granularity};
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

/// The end of their search, because busy windows at a utilisation of one may not close. Ours have a
/// bound there; those are not compared.
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

fn nanos(time: ResponseTime) -> Option<u64> {
    match time {
        ResponseTime::AtMost(bound) => Some(bound.as_nanos()),
        ResponseTime::Unbounded => None,
        ResponseTime::Undecided { .. } => panic!("undecided"),
    }
}

/// The required relation of the two sides.
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

/// Draws `rounds` systems and analyses each on both sides, task by task.
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

/// Short periods and jitter up to several of them: the draws reach the cases that the tests are
/// for.
#[test]
fn the_draws_hold_bursts_and_full_loads() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let how = Draw { quanta: true, jitter: true, ..PLAIN };
    let systems: Vec<_> = (0..1_000).map(|_| draw(&mut rng, how)).collect();
    let bursts = systems.iter().flatten().filter(|task| task.jitter > task.period).count();
    let full = systems.iter().filter(|system| common::utilisation(system) > 0.9).count();
    assert!(bursts > 100 && full > 300, "{bursts} bursts, {full} full");
}
