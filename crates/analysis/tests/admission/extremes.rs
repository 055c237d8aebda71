//! The most extreme contracts: each is answered, or refused with a reason, in bounded time.

use punctual_analysis::admit;
use punctual_model::units::MAX_NANOS;
use punctual_model::{Contract, Duration, HostProfile, Policy, Service, Task, TaskSpec};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const POLICIES: [Policy; 4] = [Policy::Rmdp, Policy::Rm, Policy::Fp, Policy::Edf];

fn nanos(name: &str, period: u64, wcet: u64) -> Task {
    Task::new(TaskSpec::periodic(name, Duration::from_nanos(period), Service::from_nanos(wcet)))
        .expect("valid")
}

fn of_tasks(policy: Policy, cpus: u16, tasks: Vec<Task>) -> Contract {
    Contract::of_tasks(policy, cpus, tasks)
}

/// Periods of about a day without a common factor, and a utilisation a few nanoseconds below one.
#[test]
fn a_contract_that_takes_for_ever_to_decide_is_refused() {
    let long: Vec<Task> = (0..7)
        .map(|i| {
            let period = MAX_NANOS - 2 * i - 1;
            nanos(&format!("t{i}"), period, period / 7)
        })
        .collect();
    for policy in POLICIES {
        let short = nanos("short", 1_000_003, 1);
        let tasks = long.iter().cloned().chain([short]).collect();
        let refusal =
            admit(&of_tasks(policy, 1, tasks), &HostProfile::ideal(8)).expect_err("undecided");
        assert!(refusal.entry.is_some());
    }
}

#[test]
fn the_extremes_of_a_contract_are_answered() {
    let extreme = [
        nanos("day", MAX_NANOS, MAX_NANOS),
        nanos("blink", 1, 1),
        Task::new(TaskSpec {
            relative_deadline: Duration::from_nanos(MAX_NANOS),
            release_jitter: Duration::from_nanos(MAX_NANOS - 1),
            quantum: Service::from_nanos(MAX_NANOS),
            ..TaskSpec::periodic("mad", Duration::from_nanos(1), Service::from_nanos(MAX_NANOS))
        })
        .expect("valid, if absurd"),
        Task::new(TaskSpec {
            relative_deadline: Duration::MAX,
            release_jitter: Duration::from_nanos(u64::MAX - 1),
            quantum: Service::MAX,
            ..TaskSpec::periodic("all", Duration::from_nanos(1), Service::MAX)
        })
        .expect("valid, if absurd"),
        nanos("rare", MAX_NANOS, 1),
    ];
    for policy in POLICIES {
        for chosen in 1..1 << extreme.len() {
            let tasks: Vec<Task> = (0..extreme.len())
                .filter(|bit| chosen >> bit & 1 == 1)
                .map(|bit| extreme[bit].clone())
                .collect();
            for cpus in [1, 2] {
                let _ = admit(&of_tasks(policy, cpus, tasks.clone()), &HostProfile::ideal(2));
            }
        }
    }
}

/// 4096 tasks that each use one in `share` of a CPU. Without the step limit some of these would run
/// for hours.
#[test]
fn the_largest_contracts_are_answered() {
    let mut rng = ChaCha8Rng::seed_from_u64(23);
    for (policy, cpus, share, admitted) in [
        (Policy::Rm, 1, 6_500, true),
        (Policy::Rm, 1, 4_700, false),
        (Policy::Rmdp, 1, 4_000, false),
        (Policy::Edf, 1, 4_100, true),
        (Policy::Edf, 1, 4_000, false),
        (Policy::Rm, 4, 1_600, true),
        (Policy::Rm, 4, 1_100, false),
        (Policy::Fp, 16, 240, false),
    ] {
        let tasks: Vec<Task> = (0..4096)
            .map(|i| {
                let period = rng.random_range(1_000_000..1_000_000_000u64);
                nanos(&format!("t{i}"), period, (period / share).max(1))
            })
            .collect();
        let answer = admit(&of_tasks(policy, cpus, tasks), &HostProfile::ideal(16));
        assert_eq!(
            answer.is_ok(),
            admitted,
            "{policy:?} on {cpus}: {:?}",
            answer.err().map(|r| r.why)
        );
    }
}
