//! Response times under first in, first out: against every arrival instant of the worst window, job
//! by job, and against random runs with a reservation above all.

use crate::common::{Draw, TICK, Ticks, draw, hyperperiod, in_ticks, load};
use punctual_analysis::{CpuLoad, Steps, admit, fifo};
use punctual_model::{HostProfile, Policy, Service};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Returns the longest response time of the job of `system[at]` that becomes known at `known`, as
/// late as possible. From 0 on all other tasks release as much as possible, and the task itself
/// releases every period up to that job. The jobs are queued and served one by one; among jobs
/// known together this one comes last.
fn serve(system: &[Ticks], at: usize, known: u64) -> u64 {
    let mut queue = Vec::new();
    for (other, task) in system.iter().enumerate() {
        let last_known = |job: u64| (job * task.period).saturating_sub(task.jitter);
        let own = other == at;
        let instants = (0..)
            .map(|job| if own { known % task.period + job * task.period } else { last_known(job) });
        queue.extend(
            instants.take_while(|&k| k <= known).map(|k| (k, own && k == known, task.wcet)),
        );
    }
    queue.sort_unstable();
    let mut now = 0;
    for (known, _, wcet) in queue {
        now = now.max(known) + wcet;
    }
    now + system[at].jitter - known
}

fn worst_case(system: &[Ticks], at: usize) -> Option<u64> {
    let over = hyperperiod(system);
    if system.iter().map(|task| over / task.period * task.wcet).sum::<u64>() > over {
        return None;
    }
    // Jitter may fill a window beyond the first hyperperiod, but no later one is worse.
    (0..2 * over).map(|known| serve(system, at, known)).max()
}

fn exact(system: &[Ticks]) -> Vec<Option<u64>> {
    in_ticks(&fifo::response_times(&load(system), &mut Steps::default()))
}

fn agree(seed: u64, rounds: usize, how: Draw) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut finite, mut full) = (0, 0);
    for round in 0..rounds {
        let system = draw(&mut rng, how);
        let over = hyperperiod(&system);
        full += usize::from(
            system.iter().map(|task| over / task.period * task.wcet).sum::<u64>() == over,
        );
        for (at, &exact) in exact(&system).iter().enumerate() {
            let served = worst_case(&system, at);
            assert_eq!(exact, served, "seed {seed} round {round} task {at} of {system:?}");
            finite += usize::from(exact.is_some());
        }
    }
    assert!(finite > rounds / 2 && full > 10, "{finite} finite, {full} at one, of {rounds}");
}

const PLAIN: Draw = Draw { tasks: 4, longest: 9, jitter: false, quanta: true, any_deadline: true };

#[test]
fn without_jitter_all_share_one_bound() {
    agree(1, 2_000, PLAIN);
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for _ in 0..1_000 {
        let times = exact(&draw(&mut rng, PLAIN));
        assert!(times.iter().all(|&time| time == times[0]), "{times:?}");
    }
}

#[test]
fn with_jitter() {
    agree(3, 2_000, Draw { jitter: true, ..PLAIN });
}

/// A job in a random run: known, task, nominal release, wcet.
type Job = (u64, usize, u64, u64);

fn random_jobs(rng: &mut ChaCha8Rng, system: &[Ticks], ticks: u64) -> Vec<Job> {
    let mut jobs = Vec::new();
    let dense = rng.random_bool(0.7);
    for (task, of) in system.iter().enumerate() {
        let (mut nominal, mut known) = (rng.random_range(0..3), 0);
        while nominal < ticks {
            let late = if rng.random() { rng.random_range(0..=of.jitter) } else { of.jitter };
            known = (nominal + late).max(known);
            jobs.push((known, task, nominal, of.wcet));
            nominal += of.period + if dense { 0 } else { rng.random_range(0..3) };
        }
    }
    jobs.sort_unstable();
    jobs
}

/// Runs jobs first in, first out, below a constant bandwidth server with a holder that wakes and
/// blocks at random.
fn run(rng: &mut ChaCha8Rng, jobs: &[Job], reserved: Option<(u64, u64)>, tasks: usize) -> Vec<u64> {
    let mut worst = vec![0; tasks];
    let (mut now, mut left, mut deadline, mut awake) = (0, 0, 0, false);
    let keen = rng.random_bool(0.5);
    for &(known, task, nominal, mut work) in jobs {
        while work > 0 {
            if let Some((budget, period)) = reserved {
                let wakes = !awake && rng.random_bool(0.6);
                awake |= wakes;
                let is_over = now >= deadline;
                if awake && (is_over || wakes && left * period > (deadline - now) * budget) {
                    (left, deadline) = (budget, now + period);
                }
                if awake && left > 0 {
                    awake = keen || rng.random_bool(0.6);
                    left -= 1;
                    now += 1;
                    continue;
                }
            }
            work -= u64::from(known <= now);
            now += 1;
        }
        worst[task] = worst[task].max(now - nominal);
    }
    worst
}

#[test]
fn random_runs_stay_within_their_bounds() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let (mut tight, mut reserving) = (0, 0);
    for round in 0..3_000 {
        let system = draw(&mut rng, Draw { jitter: true, ..PLAIN });
        let reserved = rng.random::<bool>().then(|| {
            let period = rng.random_range(3..10);
            (rng.random_range(1..=period / 3), period)
        });
        let load = CpuLoad::new(
            &crate::common::tasks(&system),
            reserved.map(|(budget, period)| crate::common::reservation(budget, period)),
            Service::ZERO,
        );
        let bounds = fifo::response_times(&load, &mut Steps::default());
        let jobs = random_jobs(&mut rng, &system, 200);
        let seen = run(&mut rng, &jobs, reserved, system.len());
        for (at, (&seen, bound)) in seen.iter().zip(&bounds).enumerate() {
            let Some(bound) = bound.bound().map(|bound| bound.as_nanos()) else { continue };
            assert!(
                seen * TICK <= bound,
                "round {round}: task {at} took {seen}, bound {bound}: {system:?} {reserved:?}"
            );
            tight += usize::from(seen * TICK == bound);
            reserving += usize::from(reserved.is_some());
        }
    }
    assert!(tight > 300 && reserving > 300, "{tight} reached, {reserving} with a reservation");
}

/// The shortcut of admission agrees with the bounds.
#[test]
fn admission_follows_the_bounds() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut admitted = 0;
    for round in 0..300 {
        let system = draw(&mut rng, Draw { jitter: true, ..PLAIN });
        let in_time = exact(&system)
            .iter()
            .zip(&system)
            .all(|(time, task)| time.is_some_and(|time| time <= task.deadline));
        for cpus in [1, 2] {
            let contract = crate::common::contract(Policy::Fifo, cpus, &system, &[]);
            let answer = admit(&contract, &HostProfile::ideal(2));
            if cpus == 1 {
                assert_eq!(answer.is_ok(), in_time, "round {round}: {system:?}");
                admitted += usize::from(in_time);
            } else {
                assert!(answer.is_ok() || !in_time, "round {round}: {system:?}");
            }
        }
    }
    assert!((30..270).contains(&admitted), "{admitted}");
}
