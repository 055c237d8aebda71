//! Response times under earliest deadline first against every job of every critical start, tick by
//! tick.

use crate::common::{Draw, TICK, Ticks, draw, hyperperiod, in_ticks, load};
use punctual_analysis::edf::demand::{DemandVerdict, processor_demand};
use punctual_analysis::edf::response_time::{non_preemptive, response_times};
use punctual_analysis::{Granularity, Steps};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Returns the response time of the job of `system[at]` with the nominal release `release`, if from
/// 0 on all other tasks release as much as possible, the task itself releases such that one release
/// is at `release`, and a quantum of a task with a later deadline began a tick before (Spuri 1996).
/// The last `segment` ticks of the job are not preempted.
fn simulate(system: &[Ticks], at: usize, release: i64, segment: u64) -> u64 {
    let signed = |ticks: u64| i64::try_from(ticks).expect("small");
    let task = system[at];
    let deadline = release + signed(task.deadline);
    let first_of_own =
        release - (release + signed(task.jitter)) / signed(task.period) * signed(task.period);
    let later = |other: &&Ticks| signed(other.deadline - other.jitter) > deadline;
    let quantum = system.iter().filter(later).map(|other| other.quantum).max().unwrap_or(0);
    let mut blocking = quantum.saturating_sub(1);
    let mut next: Vec<i64> = system.iter().map(|other| -signed(other.jitter)).collect();
    next[at] = first_of_own;
    // All jobs but the one under study, which comes last.
    let mut others = 0;
    let mut own = 0;
    let mut holds = false;
    for now in 0.. {
        for (of, next) in system.iter().zip(&mut next) {
            while *next <= now && *next + signed(of.deadline) <= deadline {
                others += of.wcet;
                *next += signed(of.period);
            }
        }
        if own == 0 && release <= now {
            others -= task.wcet;
            own = task.wcet;
        }
        if blocking > 0 {
            blocking -= 1;
        } else if others > 0 && !holds {
            others -= 1;
        } else if own > 0 {
            holds = own <= segment;
            own -= 1;
            if own == 0 {
                return u64::try_from(now + 1 - release).expect("after its release");
            }
        }
    }
    unreachable!()
}

fn worst_case(system: &[Ticks], at: usize, segment: u64) -> Option<u64> {
    let over = hyperperiod(system);
    if system.iter().map(|task| over / task.period * task.wcet).sum::<u64>() > over {
        return None;
    }
    let last = system.iter().map(|task| task.deadline).max().unwrap_or(0) + 2 * over;
    let first = -i64::try_from(system[at].jitter).expect("small");
    let last = i64::try_from(last).expect("small");
    (first..last).map(|release| simulate(system, at, release, segment)).max()
}

const DRAW: Draw = Draw { tasks: 3, longest: 8, jitter: false, quanta: false, any_deadline: true };

fn agree(seed: u64, rounds: usize, how: Draw, preemptive: bool) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut late, mut finite) = (0, 0);
    for round in 0..rounds {
        let mut system = draw(&mut rng, how);
        if !preemptive {
            system.iter_mut().for_each(|task| task.quantum = task.wcet);
        }
        let analyse = if preemptive { response_times } else { non_preemptive };
        let load = load(&system);
        let exact = in_ticks(&analyse(&load, Granularity::Ticks(TICK), &mut Steps::default()));
        for (at, &exact) in exact.iter().enumerate() {
            let segment = if preemptive { 0 } else { system[at].wcet };
            let simulated = worst_case(&system, at, segment);
            assert_eq!(exact, simulated, "seed {seed} round {round} task {at} of {system:?}");
            late += usize::from(exact.is_some_and(|exact| exact > system[at].deadline));
            finite += usize::from(exact.is_some());
        }
        // In continuous time the demand test admits only systems with bounds within the deadlines.
        if processor_demand(&load, &mut Steps::default()) == DemandVerdict::Fits {
            let sup = analyse(&load, Granularity::Continuous, &mut Steps::default());
            for ((sup, exact), task) in in_ticks(&sup).into_iter().zip(exact).zip(&system) {
                assert!(exact <= sup && sup <= Some(task.deadline), "{seed} {round} {system:?}");
            }
        }
    }
    assert!(finite > late && late > 10, "{late} late of {finite}, {rounds} rounds");
}

#[test]
fn preemptive() {
    agree(1, 3_000, DRAW, true);
}

#[test]
fn with_quanta() {
    agree(2, 3_000, Draw { quanta: true, ..DRAW }, true);
}

#[test]
fn with_release_jitter() {
    agree(3, 3_000, Draw { jitter: true, ..DRAW }, true);
}

#[test]
fn with_everything() {
    agree(4, 3_000, Draw { jitter: true, quanta: true, ..DRAW }, true);
}

#[test]
fn no_preemption() {
    agree(5, 3_000, DRAW, false);
    agree(6, 3_000, Draw { jitter: true, ..DRAW }, false);
}
