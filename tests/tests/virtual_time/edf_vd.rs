//! EDF with virtual deadlines keeps both of its promises.

use punctual_analysis::{Grant, admit};
use punctual_model::{Contract, Duration, HostProfile, Instant, Policy, Service, Task, TaskSpec};
use punctual_policy::jobs::Jobs;
use punctual_sim::arrivals::{
    Adversarial, Arrivals, Attack, Bursty, Drawn, DrawnTimes, HighTimes, Periodic,
};
use punctual_sim::overheads::Overheads;
use punctual_sim::tasks::{Eager, Setting, run_in};
use punctual_trace::Summary;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Draws tasks of two criticalities, some with quanta or shorter deadlines.
fn draw(rng: &mut ChaCha8Rng) -> Vec<Task> {
    let count = rng.random_range(2..=6);
    let total: f64 = rng.random_range(0.5..1.0);
    let shares: Vec<f64> = (0..count).map(|_| rng.random_range(0.05..1.0)).collect();
    let sum: f64 = shares.iter().sum();
    let (quanta, deadlines) = (rng.random_bool(0.3), rng.random_bool(0.3));
    let task = |(at, share): (usize, &f64)| {
        let period = rng.random_range(100..2_000_u64);
        let wcet = ((total * share / sum * period as f64) as u64).clamp(1, period);
        let deadline =
            if deadlines { rng.random_range(wcet.max(period / 2)..=period) } else { period };
        let high = (wcet as f64 * rng.random_range(1.0..3.0)) as u64;
        let quantum = if quanta { rng.random_range(0..=wcet.min(20)) } else { 0 };
        let micros = Service::from_micros;
        Task::new(TaskSpec {
            relative_deadline: Duration::from_micros(deadline),
            wcet_high: rng.random::<bool>().then(|| micros(high.min(deadline))),
            quantum: micros(quantum),
            ..TaskSpec::periodic(&format!("t{at}"), Duration::from_micros(period), micros(wcet))
        })
        .expect("drawn within the rules")
    };
    shares.iter().enumerate().map(task).collect()
}

/// Runs `tasks` once; one in `one_in` jobs of high criticality needs its `wcet_high`.
fn run(tasks: &[Task], jobs: Jobs, one_in: u32, costs: Overheads, seed: u64) -> Summary {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let longest = tasks.iter().map(Task::min_inter_arrival).max().unwrap_or_default();
    let until = Instant::ZERO + longest * 20;
    let fresh = ChaCha8Rng::seed_from_u64(rng.random());
    let pattern: Box<dyn Arrivals> = match seed % 4 {
        0 => Box::new(Periodic::new(tasks, &vec![Duration::ZERO; tasks.len()])),
        1 => Box::new(Drawn::new(tasks, fresh)),
        2 => Box::new(Bursty::new(tasks, fresh)),
        _ => Box::new(Adversarial::new(tasks, Attack::default())),
    };
    let mut pattern = pattern;
    let timed = DrawnTimes::new(tasks, &mut *pattern, ChaCha8Rng::seed_from_u64(seed + 1));
    let mut arrivals = HighTimes::new(tasks, timed, one_in, rng);
    let mut summary = Summary::new(tasks);
    let eager: Vec<bool> = tasks.iter().map(|_| seed.is_multiple_of(3)).collect();
    let setting = Setting::default().costing(costs).yielding(Eager(&eager));
    let left = run_in(setting, tasks, jobs, &mut arrivals, until, &mut summary);
    assert!(left.is_empty());
    summary
}

fn of_grant(tasks: &[Task], grant: &Grant) -> Jobs {
    let first: Vec<_> = grant.tasks.iter().map(|task| task.virtual_deadline).collect();
    Jobs::edf_vd(tasks, &first, 0)
}

/// Returns the number of late jobs of high criticality.
fn high_late(tasks: &[Task], summary: &Summary) -> u64 {
    let high = tasks.iter().zip(summary.tasks()).filter(|(task, _)| task.wcet_high().is_some());
    high.map(|(_, seen)| seen.late).sum()
}

#[test]
fn no_job_is_late_before_the_mode_change_and_no_high_one_after_it() {
    let (mut plain, mut with_virtual, mut refused, mut low_late, mut plain_edf_late) =
        (0, 0, 0, 0, 0);
    for seed in 0..1_500 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let tasks = draw(&mut rng);
        let switch =
            Service::from_micros(if seed.is_multiple_of(5) { rng.random_range(0..5) } else { 0 });
        let wake_up = if seed % 4 == 1 { rng.random_range(0..50) } else { 0 };
        let wake_up = Service::from_micros(wake_up);
        let host = HostProfile { context_switch: switch, wake_up, ..HostProfile::ideal(1) };
        let costs = Overheads { switch, wake_up, ..Overheads::default() };
        let contract = Contract::of_tasks(Policy::EdfVd, 1, tasks);
        let tasks = &contract.tasks;
        let Ok(grant) = admit(&contract, &host) else {
            refused += 1;
            continue;
        };
        let needed = grant.tasks.iter().any(|task| task.virtual_deadline.is_some());
        *(if needed { &mut with_virtual } else { &mut plain }) += 1;
        for turn in 0..4 {
            let seed = seed * 4 + turn;
            let before = run(tasks, of_grant(tasks, &grant), 0, costs, seed);
            assert_eq!(before.late(), 0, "seed {seed}: {contract:#?}");
            for one_in in [1, 3, 20] {
                let after = run(tasks, of_grant(tasks, &grant), one_in, costs, seed);
                assert_eq!(
                    high_late(tasks, &after),
                    0,
                    "seed {seed}, 1/{one_in}: {contract:#?} {grant:#?}"
                );
                low_late += after.late();
            }
            if needed {
                let edf = run(tasks, Jobs::earliest_deadline(tasks.len()), 3, costs, seed);
                plain_edf_late += high_late(tasks, &edf);
            }
        }
    }
    println!(
        "{plain} by deadlines alone, {with_virtual} by virtual ones, {refused} refused; {low_late} {plain_edf_late}"
    );
    assert!(plain > 400 && with_virtual > 250 && refused > 400, "{plain} {with_virtual} {refused}");
    assert!(
        low_late > 1_000,
        "those of low criticality are not promised anything then: {low_late}"
    );
    assert!(plain_edf_late > 1_000, "without virtual deadlines they are late: {plain_edf_late}");
}

/// Baruah et al., ECRTS 2012, Theorem 1, is a utilisation test for deadlines at the end of the
/// period. This analysis admits whatever that test admits, except for a hundredth, because x is one
/// of 1024 values here.
#[test]
fn it_admits_what_the_utilisation_test_admits() {
    let (host, mut compared) = (HostProfile::ideal(1), 0);
    for seed in 0..4_000 {
        let tasks: Vec<Task> = draw(&mut ChaCha8Rng::seed_from_u64(seed))
            .into_iter()
            .map(|task| {
                let relative_deadline = task.min_inter_arrival();
                let spec =
                    TaskSpec { relative_deadline, quantum: Service::ZERO, ..task.spec().clone() };
                Task::new(spec).expect("a longer deadline")
            })
            .collect();
        let sum = |high: bool, of: fn(&Task) -> f64| -> f64 {
            tasks.iter().filter(|task| task.wcet_high().is_some() == high).map(of).sum()
        };
        let (low, high) = (sum(false, Task::utilisation), sum(true, Task::utilisation));
        let certain = sum(true, |task| {
            let high = task.wcet_high().unwrap_or_default().as_nanos() as f64;
            high / task.min_inter_arrival().as_nanos() as f64
        });
        let x = high / (1.0 - low) + 0.01;
        if low + high > 0.99 || x > 1.0 || x * low + certain > 0.99 {
            continue;
        }
        compared += 1;
        let contract = Contract::of_tasks(Policy::EdfVd, 1, tasks);
        assert!(admit(&contract, &host).is_ok(), "seed {seed}: {contract:#?}");
    }
    assert!(compared > 500, "{compared}");
}
