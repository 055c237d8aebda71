//! Task sets inside a reservation, against a schedule tick by tick over the worst supply.

use crate::common::{TICK, Ticks, load, reservation};
use punctual_analysis::fixed_priority::ResponseTime;
use punctual_analysis::supply::fixed_priority::response_times_inside;
use punctual_analysis::supply::{Guarantee, Inside, Supply, fits_inside, least_budget};
use punctual_analysis::{CpuLoad, Steps};
use punctual_model::{Duration, Policy, Reservation, Service, Task, TaskSpec};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const GUARANTEES: [Guarantee; 2] = [Guarantee::EveryPeriod, Guarantee::EveryWindow];

fn supply(budget: u64, period: u64, guarantee: Guarantee) -> Supply {
    Supply::new(reservation(budget, period), guarantee)
}

/// Returns whether the worst supply serves tick `now`: nothing for as long as possible, then X at
/// the end of each Y.
fn serves(budget: u64, period: u64, guarantee: Guarantee, now: u64) -> bool {
    let early = match guarantee {
        Guarantee::EveryPeriod => period - budget,
        Guarantee::EveryWindow => 0,
    };
    now.checked_sub(early).is_some_and(|now| now % period >= period - budget)
}

/// Releases all tasks at once and as often as possible, and returns the longest response time of
/// each within `until` ticks, counting unfinished jobs.
fn schedule(system: &[Ticks], edf: bool, until: u64, serves: impl Fn(u64) -> bool) -> Vec<u64> {
    let mut worst = vec![0; system.len()];
    // (task, release, left), in order of release.
    let mut jobs: Vec<(usize, u64, u64)> = Vec::new();
    for now in 0..until {
        for (at, task) in system.iter().enumerate() {
            if now % task.period == 0 {
                jobs.push((at, now, task.wcet));
            }
        }
        if serves(now) {
            let urgency = |job: &&mut (usize, u64, u64)| {
                (if edf { job.1 + system[job.0].deadline } else { job.0 as u64 }, job.1)
            };
            if let Some(job) = jobs.iter_mut().min_by_key(urgency) {
                job.2 -= 1;
                if job.2 == 0 {
                    worst[job.0] = worst[job.0].max(now + 1 - job.1);
                }
            }
            jobs.retain(|job| job.2 > 0);
        }
    }
    for (task, release, _) in jobs {
        worst[task] = worst[task].max(until - release + 1);
    }
    worst
}

fn draw(rng: &mut ChaCha8Rng) -> (Vec<Ticks>, u64, u64) {
    let tasks = rng.random_range(1..=3);
    let system = (0..tasks)
        .map(|_| {
            let period = [4, 5, 6, 8, 10, 12, 15, 20][rng.random_range(0..8)];
            let wcet = rng.random_range(1..=(period / 3).max(1));
            let deadline = rng.random_range(wcet..=period);
            Ticks { deadline, ..Ticks::plain(wcet, period) }
        })
        .collect();
    let period = [1, 2, 3, 4, 5, 6, 8, 10][rng.random_range(0..8)];
    (system, rng.random_range(1..=period), period)
}

/// Longer than any horizon here: 120 is a multiple of all periods, and 40 covers delay and
/// deadlines.
const UNTIL: u64 = 3 * 120 + 40;

#[test]
fn fixed_priority_response_times_are_those_of_the_worst_supply() {
    let mut rng = ChaCha8Rng::seed_from_u64(31);
    let (mut bounded, mut unbounded) = (0, 0);
    for _ in 0..3_000 {
        let (system, budget, period) = draw(&mut rng);
        let guarantee = GUARANTEES[rng.random_range(0..2)];
        let inside = supply(budget, period, guarantee);
        let times = response_times_inside(&load(&system), &inside, &mut Steps::default());
        let worst = schedule(&system, false, UNTIL, |now| serves(budget, period, guarantee, now));
        for (time, worst) in times.into_iter().zip(worst) {
            match time {
                ResponseTime::AtMost(bound) => {
                    assert_eq!(bound.as_nanos(), worst * TICK, "{system:?} {inside:?}");
                    bounded += 1;
                }
                ResponseTime::Unbounded => unbounded += 1,
                ResponseTime::Undecided { .. } => panic!("undecided: {system:?} {inside:?}"),
            }
        }
    }
    assert!(bounded > 1_000 && unbounded > 100, "{bounded} {unbounded}");
}

#[test]
fn both_policies_fit_exactly_if_the_worst_supply_is_enough() {
    let mut rng = ChaCha8Rng::seed_from_u64(32);
    let mut seen = [[0; 2]; 2];
    for _ in 0..6_000 {
        let (system, budget, period) = draw(&mut rng);
        let guarantee = GUARANTEES[rng.random_range(0..2)];
        let edf = rng.random_bool(0.5);
        let policy = if edf { Policy::Edf } else { Policy::Fp };
        let inside = supply(budget, period, guarantee);
        let answer = fits_inside(policy, &load(&system), &inside, &mut Steps::default());
        // With more than X/Y it may take long until a task is late, so the share decides.
        let share: f64 = system.iter().map(|task| task.wcet as f64 / task.period as f64).sum();
        let enough = share <= budget as f64 / period as f64 + 1e-9;
        let worst = schedule(&system, edf, UNTIL, |now| serves(budget, period, guarantee, now));
        let in_time = worst.iter().zip(&system).all(|(worst, task)| *worst <= task.deadline);
        let expected = if enough && in_time { Inside::Fits } else { Inside::Late };
        assert_eq!(answer, expected, "{policy:?} {system:?} {inside:?}");
        seen[usize::from(edf)][usize::from(in_time)] += 1;
    }
    assert!(seen.iter().flatten().all(|count| *count > 100), "{seen:?}");
}

/// Sporadic releases that become known late, quanta that may begin anywhere, and budgets that come
/// anywhere in their periods: no response time exceeds the bounds.
#[test]
fn no_run_with_quanta_and_jitter_exceeds_the_bounds() {
    let mut rng = ChaCha8Rng::seed_from_u64(33);
    let (mut close, mut fits) = (0, 0);
    for round in 0..8_000 {
        let (mut system, budget, period) = draw(&mut rng);
        for task in &mut system {
            task.quantum = rng.random_range(0..=task.wcet);
            task.jitter = rng.random_range(0..task.deadline);
        }
        let inside = supply(budget, period, Guarantee::EveryPeriod);
        let edf = round % 2 == 0;
        let worst = random_run(&mut rng, &system, edf, budget, period);
        if edf {
            let answer = fits_inside(Policy::Edf, &load(&system), &inside, &mut Steps::default());
            if answer == Inside::Fits {
                fits += 1;
                let in_time =
                    worst.iter().zip(&system).all(|(worst, task)| *worst <= task.deadline);
                assert!(in_time, "{system:?} {inside:?} {worst:?}");
            }
            continue;
        }
        let times = response_times_inside(&load(&system), &inside, &mut Steps::default());
        for (time, worst) in times.into_iter().zip(worst) {
            let Some(bound) = time.bound() else { continue };
            assert!(worst * TICK <= bound.as_nanos(), "{system:?} {inside:?}: {worst} {bound}");
            close += u64::from((worst + 1) * TICK >= bound.as_nanos());
        }
    }
    assert!(close > 100 && fits > 100, "{close} {fits}");
}

/// Returns the longest response time of each task, from the nominal release, in one random run.
fn random_run(
    rng: &mut ChaCha8Rng,
    system: &[Ticks],
    edf: bool,
    budget: u64,
    period: u64,
) -> Vec<u64> {
    struct Job {
        task: usize,
        nominal: u64,
        known: u64,
        left: u64,
    }
    let mut worst = vec![0; system.len()];
    let mut jobs: Vec<Job> = Vec::new();
    let mut next: Vec<u64> = system.iter().map(|_| rng.random_range(0..8)).collect();
    let keen = rng.random_bool(0.7);
    // (position of a job that may not be preempted yet, ticks until it may)
    let mut held: Option<(usize, u64, u64)> = None;
    let (mut given, mut first_late) = (0, rng.random_bool(0.5));
    for now in 0..300 {
        for (at, task) in system.iter().enumerate() {
            if next[at] == now {
                let late = if rng.random_bool(0.5) { task.jitter } else { 0 };
                jobs.push(Job { task: at, nominal: now, known: now + late, left: task.wcet });
                let more = if keen { 0 } else { rng.random_range(0..task.period) };
                next[at] = now + task.period + more;
            }
        }
        if now % period == 0 {
            given = 0;
            first_late = if now == 0 { false } else { rng.random_bool(0.8) };
        }
        let must = budget - given >= period - now % period;
        if given == budget || !(must || !first_late || rng.random_bool(0.1)) {
            continue;
        }
        given += 1;
        let known = |job: &&mut Job| job.known <= now;
        let holder = held.filter(|held| held.2 > 0).map(|held| (held.0, held.1));
        let job = match holder {
            Some((task, nominal)) => {
                jobs.iter_mut().find(|job| (job.task, job.nominal) == (task, nominal))
            }
            None => jobs.iter_mut().filter(known).min_by_key(|job| {
                let urgency =
                    if edf { job.nominal + system[job.task].deadline } else { job.task as u64 };
                (urgency, job.task, job.nominal)
            }),
        };
        let Some(job) = job else { continue };
        let quantum = match (holder, held) {
            (Some(_), Some((.., left))) => left,
            _ => system[job.task].quantum.max(1),
        };
        job.left -= 1;
        let done = job.left == 0;
        held = Some((job.task, job.nominal, if done { 0 } else { quantum - 1 }));
        if done {
            worst[job.task] = worst[job.task].max(now + 1 - job.nominal);
        }
        jobs.retain(|job| job.left > 0);
    }
    worst
}

#[test]
fn the_least_budget_fits_and_one_nanosecond_less_does_not() {
    let mut rng = ChaCha8Rng::seed_from_u64(34);
    let mut found = 0;
    for round in 0..400 {
        let (system, _, period) = draw(&mut rng);
        let (policy, guarantee) = ([Policy::Rm, Policy::Edf][round % 2], GUARANTEES[round / 2 % 2]);
        let period = Duration::from_nanos(period * TICK);
        let Some(least) = least_budget(policy, &load(&system), guarantee, period, 1_000_000) else {
            continue;
        };
        assert!(least.is_least);
        found += 1;
        // Compared with budgets all over the period.
        let (system, apart) = (load(&system), (period.as_nanos() / 97).max(1) as usize);
        let fits = |nanos| {
            let reservation = Reservation::new(Service::from_nanos(nanos), period).expect("valid");
            let inside = Supply::new(reservation, guarantee);
            fits_inside(policy, &system, &inside, &mut Steps::default()) == Inside::Fits
        };
        let nanos = least.reservation.budget().as_nanos();
        assert!(fits(nanos) && (nanos == 1 || !fits(nanos - 1)), "{system:?}");
        assert!((1..nanos).step_by(apart).all(|less| !fits(less)), "{system:?}");
        assert!((nanos..=period.as_nanos()).step_by(apart).all(fits), "{system:?}");
    }
    assert!(found > 100, "{found}");
}

#[test]
fn the_stronger_guarantee_never_needs_more() {
    let mut rng = ChaCha8Rng::seed_from_u64(35);
    for _ in 0..300 {
        let (system, _, period) = draw(&mut rng);
        let least = |guarantee| {
            let period = Duration::from_nanos(period * TICK);
            least_budget(Policy::Edf, &load(&system), guarantee, period, 1_000_000)
                .map(|least| least.reservation.budget())
        };
        let [weak, strong] = GUARANTEES.map(least);
        assert!(weak.is_none() || strong <= weak, "{system:?}");
    }
}

#[test]
fn nothing_is_admitted_that_was_not_decided() {
    let system = [Ticks::plain(1, 6), Ticks::plain(1, 8)];
    let inside = supply(4, 5, Guarantee::EveryPeriod);
    for policy in [Policy::Fp, Policy::Edf] {
        let answer = |steps| fits_inside(policy, &load(&system), &inside, &mut Steps::new(steps));
        assert_eq!((answer(1), answer(1_000)), (Inside::Undecided, Inside::Fits));
    }
}

/// Times up to 64 bits and shares near one: there is an answer, in bounded time, without an
/// overflow.
#[test]
fn extremes_are_answered() {
    let mut rng = ChaCha8Rng::seed_from_u64(36);
    let mut any = |least: u64| match rng.random_range(0..4) {
        0 => rng.random_range(least..least.saturating_add(10).max(least + 1)),
        1 => rng.random_range(least..=u64::MAX),
        2 => u64::MAX - rng.random_range(0..10u64).min(u64::MAX - least),
        _ => rng.random_range(least..=least.max(86_400_000_000_000)),
    };
    let mut answers = [0; 3];
    for round in 0..800 {
        let tasks: Vec<Task> = (0..1 + round % 4)
            .map(|_| {
                let (wcet, period) = (any(1).min(u64::MAX / 4), any(1));
                let deadline = any(wcet);
                Task::new(TaskSpec {
                    relative_deadline: Duration::from_nanos(deadline),
                    release_jitter: Duration::from_nanos(any(0) % deadline),
                    quantum: Service::from_nanos(any(0) % (wcet + 1)),
                    ..TaskSpec::periodic(
                        "t",
                        Duration::from_nanos(period),
                        Service::from_nanos(wcet),
                    )
                })
                .expect("valid")
            })
            .collect();
        let load = CpuLoad::new(&tasks, [], Service::from_nanos(any(0) % 1_000));
        let budget = any(1).min(u64::MAX - 20);
        let reservation =
            Reservation::new(Service::from_nanos(budget), Duration::from_nanos(any(budget)));
        let inside = Supply::new(reservation.expect("valid"), GUARANTEES[round % 2]);
        let policy = [Policy::Fp, Policy::Edf][round / 2 % 2];
        answers[match fits_inside(policy, &load, &inside, &mut Steps::new(20_000)) {
            Inside::Fits => 0,
            Inside::Late => 1,
            Inside::Undecided => 2,
        }] += 1;
    }
    assert!(answers.iter().all(|count| *count > 10), "{answers:?}");
}
