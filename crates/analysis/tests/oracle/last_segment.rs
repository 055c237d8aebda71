//! Limited and no preemption under fixed priorities against a tick-by-tick simulation of the worst
//! case.

use crate::common::{Draw, TICK, Ticks, draw, hyperperiod, in_ticks, load};
use punctual_analysis::fixed_priority::{ResponseTime, floating, last_segment, non_preemptive};
use punctual_analysis::{Granularity, Steps};
use punctual_model::Service;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Simulates the worst case of `system[at]` and returns its response time: the largest less urgent
/// section began one tick before 0, the first release of every task became known as late as
/// possible, the others become known as soon as possible, and the last `segment` ticks of a job of
/// the task itself are not preempted. Returns `None` if it never ends.
fn simulate_worst_case(system: &[Ticks], at: usize, segment: u64) -> Option<u64> {
    let shared = &system[..=at];
    let over: u64 = hyperperiod(shared);
    let demanded: u64 = shared.iter().map(|task| over / task.period * task.wcet).sum();
    if demanded > over {
        return None;
    }
    let mut blocking = system[at + 1..].iter().map(|task| task.quantum).max().unwrap_or(0);
    blocking = blocking.saturating_sub(1);
    let mut pending = vec![0u64; at + 1];
    let mut released = vec![0u64; at + 1];
    let (mut completed, mut worst, mut holds) = (0, 0, false);
    // At a utilisation of one the window may never close; this is enough to see all.
    for now in 0..6 * over + 1_000 {
        if now > 0 && blocking == 0 && pending.iter().all(|&work| work == 0) {
            return Some(worst);
        }
        for (task, (pending, released)) in
            shared.iter().zip(pending.iter_mut().zip(released.iter_mut()))
        {
            while (*released * task.period).saturating_sub(task.jitter) <= now {
                *released += 1;
                *pending += task.wcet;
            }
        }
        if blocking > 0 {
            blocking -= 1;
            continue;
        }
        let first = pending.iter().position(|&work| work > 0);
        let runs = if holds { Some(at) } else { first };
        let Some(runs) = runs else { continue };
        let task = system[at];
        if runs == at {
            let left = (pending[at] - 1) % task.wcet + 1;
            holds = left <= segment && left > 1;
        }
        pending[runs] -= 1;
        if runs == at && pending[at].is_multiple_of(task.wcet) {
            worst = worst.max(now + 1 + task.jitter - completed * task.period);
            completed += 1;
        }
    }
    Some(worst)
}

/// Returns the system with twice as many ticks for the same time.
fn finer(system: &[Ticks]) -> Vec<Ticks> {
    let twice = |task: &Ticks| Ticks {
        wcet: 2 * task.wcet,
        period: 2 * task.period,
        deadline: 2 * task.deadline,
        jitter: 2 * task.jitter,
        quantum: 2 * task.quantum,
    };
    system.iter().map(twice).collect()
}

/// Returns the response time in continuous time: with half ticks the blocker is half a tick short
/// of its supremum.
fn simulate_supremum(system: &[Ticks], at: usize, segment: u64) -> Option<u64> {
    let blocked = system[at + 1..].iter().any(|task| task.quantum > 0);
    let halves = simulate_worst_case(&finer(system), at, 2 * segment)? + u64::from(blocked);
    assert!(halves.is_multiple_of(2));
    Some(halves / 2)
}

const DRAW: Draw = Draw { tasks: 4, longest: 12, jitter: true, quanta: true, any_deadline: true };

fn agree(
    seed: u64,
    rounds: usize,
    segment_of: impl Fn(&mut ChaCha8Rng, &mut Ticks) -> u64,
    analyse: impl Fn(&[Ticks], &[u64], Granularity) -> Vec<ResponseTime>,
) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut unbounded, mut finer) = (0, 0);
    for round in 0..rounds {
        let jitter = rng.random();
        let mut system = draw(&mut rng, Draw { jitter, ..DRAW });
        let segments: Vec<u64> = system.iter_mut().map(|task| segment_of(&mut rng, task)).collect();
        let discrete = in_ticks(&analyse(&system, &segments, Granularity::Ticks(TICK)));
        let continuous = in_ticks(&analyse(&system, &segments, Granularity::Continuous));
        for at in 0..system.len() {
            let what = format!("seed {seed} round {round} task {at} {system:?} {segments:?}");
            assert_eq!(discrete[at], simulate_worst_case(&system, at, segments[at]), "{what}");
            assert_eq!(continuous[at], simulate_supremum(&system, at, segments[at]), "{what}");
            unbounded += usize::from(discrete[at].is_none());
            finer += usize::from(discrete[at] < continuous[at]);
        }
    }
    assert!(unbounded > 0 && finer > rounds / 10, "{unbounded} {finer} of {rounds}");
}

#[test]
fn floating_quanta_in_ticks() {
    agree(
        1,
        2_000,
        |_, _| 0,
        |system, _, granularity| {
            floating::response_times(&load(system), granularity, &mut Steps::default())
        },
    );
}

#[test]
fn no_preemption() {
    let all = |_: &mut ChaCha8Rng, task: &mut Ticks| {
        task.quantum = task.wcet;
        task.wcet
    };
    agree(2, 4_000, all, |system, _, granularity| {
        non_preemptive::response_times(&load(system), granularity, &mut Steps::default())
    });
}

#[test]
fn a_known_last_segment() {
    let some = |rng: &mut ChaCha8Rng, task: &mut Ticks| rng.random_range(0..=task.wcet);
    agree(3, 4_000, some, |system, segments, granularity| {
        let last: Vec<Service> = segments.iter().map(|s| Service::from_nanos(s * TICK)).collect();
        last_segment::response_times(&load(system), &last, granularity, &mut Steps::default())
    });
}

/// If some length is not a multiple of the ticks, time cannot consist of them.
#[test]
fn odd_ticks_are_not_believed() {
    let system = crate::common::plain(&[(20, 70), (20, 80), (35, 200)]);
    let times = |granularity| {
        let load = load(&system);
        in_ticks(&non_preemptive::response_times(&load, granularity, &mut Steps::default()))
    };
    assert_eq!(times(Granularity::Ticks(3 * TICK)), times(Granularity::Continuous));
}
