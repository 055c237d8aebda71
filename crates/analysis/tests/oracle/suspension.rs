//! Random runs of tasks that suspend themselves stay within their bounds.

use crate::common::{TICK, Ticks};
use punctual_analysis::{Steps, fixed_priority};
use punctual_model::Duration;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

struct Job {
    release: u64,
    work: u64,
    /// The remaining suspension, and the end of the current one.
    suspension: u64,
    away_until: u64,
}

/// Returns the worst response time of each task in one random run: preemptive, the first task most
/// urgent.
fn run(rng: &mut ChaCha8Rng, system: &[Ticks], suspension: &[u64], ticks: u64) -> Vec<u64> {
    let mut worst = vec![0; system.len()];
    let mut queues: Vec<Vec<Job>> = system.iter().map(|_| Vec::new()).collect();
    let mut next: Vec<u64> = system.iter().map(|_| rng.random_range(0..4)).collect();
    let eager = rng.random_bool(0.5);
    for now in 0..ticks {
        for ((task, &suspension), (next, queue)) in
            system.iter().zip(suspension).zip(next.iter_mut().zip(&mut queues))
        {
            if *next <= now {
                queue.push(Job { release: now, work: task.wcet, suspension, away_until: 0 });
                *next = now + task.period + if eager { 0 } else { rng.random_range(0..3) };
            }
        }
        for queue in &mut queues {
            // In the middle of its work, at its start, or before its last tick.
            if let Some(job) = queue.first_mut()
                && job.away_until <= now
                && job.suspension > 0
                && rng.random_bool(0.3)
            {
                let away = if rng.random() { job.suspension } else { 1 };
                job.suspension -= away;
                job.away_until = now + away;
            }
        }
        let ready = |queue: &Vec<Job>| queue.first().is_some_and(|job| job.away_until <= now);
        let Some(at) = queues.iter().position(ready) else { continue };
        let job = &mut queues[at][0];
        job.work -= 1;
        if job.work == 0 {
            worst[at] = worst[at].max(now + 1 - job.release);
            queues[at].remove(0);
        }
    }
    worst
}

#[test]
fn random_runs_stay_within_their_bounds() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (mut proven, mut reached, mut below_a_suspending_one) = (0, 0, 0);
    for round in 0..4_000 {
        let tasks = rng.random_range(1..=4);
        let system: Vec<Ticks> = (0..tasks)
            .map(|_| {
                let period = rng.random_range(4..=24);
                let wcet = rng.random_range(1..=(period / tasks).max(1));
                Ticks { deadline: rng.random_range(wcet..=period), ..Ticks::plain(wcet, period) }
            })
            .collect();
        let suspension: Vec<u64> = system
            .iter()
            .map(|task| if rng.random() { rng.random_range(0..=task.period / 2) } else { 0 })
            .collect();
        let durations: Vec<_> =
            suspension.iter().map(|&ticks| Duration::from_nanos(ticks * TICK)).collect();
        let load = crate::common::load(&system);
        let bounds =
            fixed_priority::suspension::response_times(&load, &durations, &mut Steps::default());
        for _ in 0..4 {
            let seen = run(&mut rng, &system, &suspension, 300);
            for (at, (&seen, bound)) in seen.iter().zip(&bounds).enumerate() {
                let Some(bound) = bound else { continue };
                assert!(
                    seen * TICK <= bound.as_nanos(),
                    "round {round}: task {at} took {seen}, bound {bound}: {system:?} {suspension:?}"
                );
                proven += 1;
                reached += usize::from(seen * TICK == bound.as_nanos());
                below_a_suspending_one += usize::from(suspension[..at].iter().any(|&s| s > 0));
            }
        }
    }
    assert!(
        proven > 10_000 && reached > 1_000 && below_a_suspending_one > 1_000,
        "{reached} of {proven} reached, {below_a_suspending_one} below a suspending one"
    );
}

/// Without suspensions the bounds are the exact response times, if they and those of all tasks
/// above are within the deadline.
#[test]
fn without_suspension_it_is_exact() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let how = crate::common::Draw {
        tasks: 4,
        longest: 14,
        jitter: true,
        quanta: false,
        any_deadline: false,
    };
    let mut compared = 0;
    for round in 0..2_000 {
        let system = crate::common::draw(&mut rng, how);
        let load = crate::common::load(&system);
        let exact = crate::common::response_ticks(&load);
        let bounds = fixed_priority::suspension::response_times(&load, &[], &mut Steps::default());
        let mut all_above = true;
        for ((task, exact), bound) in system.iter().zip(exact).zip(bounds) {
            all_above &= exact.is_some_and(|exact| exact <= task.deadline);
            let expected = exact.filter(|_| all_above);
            let bound = bound.map(|bound| bound.as_nanos() / TICK);
            assert_eq!(bound, expected, "round {round}: {system:?}");
            compared += usize::from(all_above);
        }
    }
    assert!(compared > 1_000, "{compared}");
}
