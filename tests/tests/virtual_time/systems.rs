//! The simulator keeps the promises of admission, and shares no line with the analysis.

use std::sync::Mutex;

use punctual_analysis::admit;
use punctual_model::{Contract, Duration, HostProfile, Instant, Policy, Task};
use punctual_policy::jobs::Jobs;
use punctual_sim::arrivals::Periodic;
use punctual_sim::tasks::run;
use punctual_trace::Summary;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use system_tests::draw::{self, Kind, POLICIES};
use system_tests::promise::{Outcome, holds};

/// The number of seeds.
const SEEDS: u64 = 20_000;

/// Twenty thousand random systems over all policies, of which 8665 are admitted: no job of these is
/// ever late, and none takes longer than its bound. The seed in the message replays a failure; `make
/// soak` goes on for a million.
#[test]
fn no_admitted_system_of_twenty_thousand_misses() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let kept = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for first in 0..threads {
            let kept = &kept;
            scope.spawn(move || {
                for seed in (first..SEEDS).step_by(threads as usize) {
                    match holds(seed) {
                        Ok(Outcome::Refused) => {}
                        Ok(Outcome::Kept { policy, reached, .. }) => {
                            kept.lock().expect("no promise broken").push((policy, reached));
                        }
                        Err(broken) => panic!("{broken}"),
                    }
                }
            });
        }
    });
    let kept = kept.into_inner().expect("no promise broken");
    let admitted = kept.len() as u64;
    println!("{admitted} of {SEEDS} admitted");
    // The draw must cover both answers under every policy, and cases close to the boundary: the
    // runs are hard enough that many reach a bound.
    assert!((8_000..SEEDS - 2_000).contains(&admitted), "{admitted} of {SEEDS} admitted");
    for policy in POLICIES {
        let of_policy = kept.iter().filter(|(of, _)| *of == policy);
        let (count, reached) =
            of_policy.fold((0, 0), |(n, sum), (_, reached)| (n + 1, sum + reached));
        println!("{policy:?}: {count} admitted, {reached} bounds reached");
        assert!(count > 900 && reached > 800, "{policy:?}: {count}, {reached} bounds reached");
    }
}

/// The bounds are not only safe but exact where the theory says so: without quanta, jitter and
/// later deadlines, fixed-priority tasks meet theirs at the critical instant.
#[test]
fn bounds_are_reached_at_the_critical_instant() {
    let host = HostProfile::ideal(1);
    let mut compared = 0;
    for seed in 0..3_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let tasks = draw::tasks(&mut rng, Kind::ANY);
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
