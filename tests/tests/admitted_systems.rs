//! What admission promises, the simulator keeps: it shares no line with the analysis.

use punctual_analysis::admit;
use punctual_model::{Contract, Duration, HostProfile, Instant, Policy, Task};
use punctual_policy::jobs::Jobs;
use punctual_sim::arrivals::{Drawn, Periodic};
use punctual_sim::tasks::run;
use punctual_trace::Summary;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use system_tests::draw_tasks;

const POLICIES: [Policy; 4] = [Policy::Rmdp, Policy::Rm, Policy::Fp, Policy::Edf];

/// Simulates five arrival patterns; the worst response of each task over all of them.
fn worst_responses(
    policy: Policy,
    tasks: &[Task],
    rng: &mut ChaCha8Rng,
) -> (u64, Vec<Option<Duration>>) {
    let longest = tasks.iter().map(Task::min_inter_arrival).max().expect("tasks");
    let until = Instant::ZERO + longest * 6;
    let mut summary = Summary::new(tasks);
    // The critical instant; the same with everybody released just after the one with the longest
    // quantum began; phases drawn; and two runs of drawn arrivals.
    let together = vec![Duration::ZERO; tasks.len()];
    let blocker = (0..tasks.len()).max_by_key(|i| tasks[*i].quantum()).expect("tasks");
    let mut blocked = vec![Duration::from_nanos(1); tasks.len()];
    blocked[blocker] = Duration::ZERO;
    let drawn: Vec<Duration> = tasks
        .iter()
        .map(|t| Duration::from_nanos(rng.random_range(0..t.min_inter_arrival().as_nanos())))
        .collect();
    for phases in [together, blocked, drawn] {
        // Shifted by the largest jitter, so that every phase is reached from a release after zero.
        let shift = tasks.iter().map(Task::release_jitter).max().expect("tasks");
        let phases: Vec<Duration> = phases.into_iter().map(|phase| phase + shift).collect();
        let mut arrivals = Periodic::new(tasks, &phases);
        run(tasks, Jobs::of(policy, tasks, 0), &mut arrivals, until + shift, &mut summary);
    }
    for _ in 0..2 {
        let mut arrivals = Drawn::new(tasks, ChaCha8Rng::seed_from_u64(rng.random()));
        run(tasks, Jobs::of(policy, tasks, 0), &mut arrivals, until, &mut summary);
    }
    (summary.late(), summary.tasks().iter().map(|task| task.response_time.max()).collect())
}

/// Seeds of the systems drawn: enough for ten thousand admitted ones.
const SEEDS: u64 = 24_500;

/// Ten thousand random systems that were admitted, over all four policies: no job is ever late,
/// and none takes longer than its bound. The seed in the message replays a failure.
#[test]
fn ten_thousand_admitted_systems_never_miss() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let admitted: u64 = std::thread::scope(|scope| {
        let share = |first| {
            scope.spawn(move || {
                (first..SEEDS).step_by(threads as usize).filter(|s| holds(*s)).count()
            })
        };
        let shares: Vec<_> = (0..threads).map(share).collect();
        shares.into_iter().map(|share| share.join().expect("no promise broken") as u64).sum()
    });
    // The draw must be worth something on both sides of the line.
    assert!(admitted >= 10_000 && SEEDS - admitted > 1_000, "{admitted} of {SEEDS} admitted");
}

/// Whether the system of this seed is admitted; panics if it then breaks its promise.
fn holds(seed: u64) -> bool {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let policy = POLICIES[rng.random_range(0..POLICIES.len())];
    let contract = Contract::of_tasks(policy, 1, draw_tasks(&mut rng));
    let Ok(grant) = admit(&contract, &HostProfile::ideal(1)) else { return false };
    let (late, worst) = worst_responses(policy, &contract.tasks, &mut rng);
    assert_eq!(late, 0, "seed {seed}: {contract:#?}");
    for (task, worst) in grant.tasks.iter().zip(worst) {
        let bound = task.response_time_bound;
        assert!(worst <= Some(bound), "seed {seed}: {} {worst:?} > {bound}", task.name);
    }
    true
}

/// The bounds are not only safe but exact where the theory says so: without quanta, jitter and
/// later deadlines, fixed-priority tasks meet theirs at the critical instant.
#[test]
fn bounds_are_reached_at_the_critical_instant() {
    let host = HostProfile::ideal(1);
    let mut compared = 0;
    for seed in 0..3_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let tasks = draw_tasks(&mut rng);
        let plain = tasks.iter().all(|task| {
            task.quantum().is_zero()
                && task.release_jitter().is_zero()
                && task.relative_deadline() == task.min_inter_arrival()
        });
        let contract = Contract::of_tasks(Policy::Rm, 1, tasks);
        let Ok(grant) = admit(&contract, &host) else { continue };
        if !plain {
            continue;
        }
        compared += 1;
        let tasks = &contract.tasks;
        let mut summary = Summary::new(tasks);
        let phases = vec![Duration::ZERO; tasks.len()];
        let until = Instant::from_nanos(1);
        // The first job of each is enough, but its busy window must be full: run it all.
        let longest = tasks.iter().map(Task::min_inter_arrival).max().expect("tasks");
        let mut arrivals = Periodic::new(tasks, &phases);
        run(tasks, Jobs::of(Policy::Rm, tasks, 0), &mut arrivals, until + longest, &mut summary);
        for (task, seen) in grant.tasks.iter().zip(summary.tasks()) {
            assert_eq!(seen.response_time.max(), Some(task.response_time_bound), "seed {seed}");
        }
    }
    assert!(compared > 100, "{compared} compared");
}
