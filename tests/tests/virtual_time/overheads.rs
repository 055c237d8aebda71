//! Systems that fit with the costs of switches and wake-ups never miss where these cost that much.

use crate::late::Late;
use punctual_analysis::edf::demand::{DemandVerdict, processor_demand};
use punctual_analysis::fixed_priority::all_in_time;
use punctual_analysis::{CpuLoad, Steps, fifo};
use punctual_model::{Duration, Instant, Policy, Service, Task, TaskSpec};
use punctual_policy::jobs::Jobs;
use punctual_sim::arrivals::{Adversarial, Arrivals, Attack, Bursty, Drawn, DrawnTimes};
use punctual_sim::overheads::Overheads;
use punctual_sim::tasks::{Setting, run, run_in};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Returns whether `tasks`, the most urgent first, certainly meet their deadlines at these costs.
fn fits(tasks: &[Task], policy: Policy, costs: Overheads) -> bool {
    let load = CpuLoad::new(tasks, [], costs.switch + costs.cache).with_wake_up(costs.wake_up);
    let mut steps = Steps::new(1_000_000);
    match policy {
        Policy::Fifo => fifo::response_times(&load, &mut steps)
            .iter()
            .zip(tasks)
            .all(|(time, task)| time.bound().is_some_and(|time| time <= task.relative_deadline())),
        Policy::Edf => processor_demand(&load, &mut steps) == DemandVerdict::Fits,
        _ => all_in_time(&load, &mut steps),
    }
}

/// Draws a system, the cost of its switches, 1 to 200 µs, and of wake-ups, up to 3 ms in half of
/// the systems. With `long_quanta` each task has a quantum of at least a switch.
fn draw(rng: &mut ChaCha8Rng, long_quanta: bool) -> (Vec<Task>, Overheads) {
    let switch = Service::from_micros(rng.random_range(1..=100));
    let cache = Service::from_micros(rng.random_range(0..=100));
    let length = switch + cache;
    let tasks = crate::draw::tasks(rng, (0.2, 1.1), 100.0);
    let lengthen = |task: &Task| {
        let spec = task.spec().clone();
        if !long_quanta {
            return task.clone();
        }
        let wcet = spec.wcet.max(length);
        let quantum = spec.quantum.max(length);
        let relative_deadline = spec.relative_deadline.max(wcet.at_full_speed());
        Task::new(TaskSpec { wcet, quantum, relative_deadline, ..spec }).expect("longer")
    };
    let wake_up = Service::from_micros(rng.random_range(0..2) * rng.random_range(1..=3_000));
    (tasks.iter().map(lengthen).collect(), Overheads { switch, cache, wake_up })
}

/// Returns the number of late jobs over many patterns of arrivals.
fn late(tasks: &[Task], policy: Policy, costs: Overheads, seed: u64) -> u64 {
    let of_all = |of: fn(&Task) -> Duration| tasks.iter().map(of).max().unwrap_or_default();
    let until = Instant::ZERO + of_all(Task::min_inter_arrival) + of_all(Task::release_jitter);
    let mut seen = Late::new(tasks);
    let mut simulate = |arrivals: &mut dyn Arrivals| {
        let setting = Setting::default().costing(costs);
        let jobs = Jobs::of(policy, tasks, 0);
        let left = run_in(setting, tasks, jobs, &mut &mut *arrivals, until, &mut seen);
        assert!(left.is_empty());
    };
    // Blockers whose switch is over, or has just begun, when the other tasks are released.
    for lead in [costs.length(), Duration::ZERO] {
        for blocker in (0..tasks.len() as u32).map(Some).chain([None]) {
            let attack = Attack { blocker, lead, aligned: None };
            simulate(&mut Adversarial::new(tasks, attack));
        }
    }
    let rng = |nth: u64| ChaCha8Rng::seed_from_u64(seed ^ (nth << 32));
    simulate(&mut Drawn::new(tasks, rng(1)));
    simulate(&mut Bursty::new(tasks, rng(2)));
    simulate(&mut DrawnTimes::new(tasks, Bursty::new(tasks, rng(3)), rng(4)));
    seen.late
}

/// The analysis is safe even where a quantum is shorter than a switch, though it counts no more
/// than the quantum of a less urgent task. Of n jobs in a busy window at most n − 1 displace
/// another of them, so one of the 2n charged switches is left over for a switch to a less urgent
/// job that was under way.
#[test]
fn systems_that_fit_with_these_costs_never_miss() {
    let (mut admitted, mut would_be, mut woken) = ([0, 0], 0, 0);
    for seed in 0..SEEDS {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let policy = [Policy::Fp, Policy::Edf, Policy::Fifo][rng.random_range(0..3)];
        let long_quanta = rng.random_bool(0.3);
        let (mut tasks, costs) = draw(&mut rng, long_quanta);
        tasks.sort_by_key(Task::relative_deadline);
        let at_once = Overheads { wake_up: Service::ZERO, ..costs };
        if fits(&tasks, policy, costs) {
            admitted[usize::from(long_quanta)] += 1;
            let late = late(&tasks, policy, costs, seed);
            assert_eq!(late, 0, "seed {seed}: {policy:?} {costs:?} {tasks:#?}");
        } else if fits(&tasks, policy, at_once) {
            // With immediate wake-ups it would fit: does the delay matter?
            woken += u64::from(late(&tasks, policy, costs, seed) > 0);
        } else if fits(&tasks, policy, Overheads::default()) {
            // With free switches it would fit: does their cost matter?
            would_be += u64::from(late(&tasks, policy, costs, seed) > 0);
        }
    }
    println!("{admitted:?} admitted, {would_be} and {woken} would be late without the charges");
    assert!(admitted[0] > 500 && admitted[1] > 200, "{admitted:?}");
    assert!(would_be > 20 && woken > 20, "{would_be} {woken}");
}

const SEEDS: u64 = 4_000;

/// Switches that cost nothing change nothing.
#[test]
fn free_switches_are_the_plain_case() {
    for seed in 0..200 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (tasks, _) = draw(&mut rng, false);
        let until = Instant::from_nanos(300_000_000);
        let (mut plain, mut costing) = (Vec::new(), Vec::new());
        let arrivals = || Drawn::new(&tasks, ChaCha8Rng::seed_from_u64(seed));
        let jobs = || Jobs::of(Policy::Edf, &tasks, 0);
        run(&tasks, jobs(), &mut arrivals(), until, &mut plain);
        let setting = Setting::default().costing(Overheads::default());
        let left = run_in(setting, &tasks, jobs(), &mut arrivals(), until, &mut costing);
        assert!(left.is_empty());
        assert_eq!(plain, costing, "seed {seed}");
    }
}
