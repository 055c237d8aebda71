//! Checks the promise of admission: no job of an admitted system is late, and none exceeds its
//! bound.

use punctual_analysis::{Grant, Steps, admit_within};
use punctual_model::{Contract, Duration, HostProfile, Instant, Policy, Task};
use punctual_policy::jobs::Jobs;
use punctual_sim::arrivals::{
    Adversarial, Aligned, Arrivals, Attack, Bursty, Drawn, DrawnTimes, Periodic,
};
use punctual_sim::overheads::Overheads;
use punctual_sim::processor::{Demand, Servers};
use punctual_sim::tasks::{Eager, Setting, run_in};
use punctual_trace::Summary;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::draw;

/// The outcome for one random system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Not admitted, so nothing was promised.
    Refused,
    /// Admitted, and the promise was kept in every run.
    Kept {
        /// The policy.
        policy: Policy,
        /// The number of simulated jobs.
        jobs: u64,
        /// The number of tasks of which some job took as long as its bound.
        reached: u64,
        /// The number of tasks.
        tasks: u64,
    },
}

/// Draws the system of `seed`, and if it is admitted simulates it under six arrival patterns.
///
/// # Errors
/// Returns the broken promise, with the seed that replays it.
pub fn holds(seed: u64) -> Result<Outcome, String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (contract, host) = draw::system(&mut rng);
    let Ok(grant) = admit_within(&contract, &host, &mut Steps::new(STEPS)) else {
        return Ok(Outcome::Refused);
    };
    let mut summary = Summary::new(&contract.tasks);
    for _ in 0..RUNS {
        let late = run(&contract, &host, &mut rng, &mut summary);
        if late + summary.late() > 0 {
            return Err(format!("seed {seed}: a job is late: {contract:#?} on {host:?}"));
        }
    }
    let reached = within_bounds(&grant, &summary)
        .map_err(|why| format!("seed {seed}: {why}: {contract:#?} on {host:?}"))?;
    let (jobs, tasks) = (summary.jobs(), contract.tasks.len() as u64);
    Ok(Outcome::Kept { policy: contract.policy, jobs, reached, tasks })
}

const RUNS: usize = 6;

/// The steps that an admission may use: systems that take longer would delay all others.
const STEPS: u64 = 4_000_000;

/// Does the same on two to four CPUs without reservations: each CPU has the tasks that admission
/// placed there.
///
/// # Errors
/// Returns the broken promise, with the seed that replays it.
pub fn holds_on_several(seed: u64) -> Result<Outcome, String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (contract, host) = draw::several(&mut rng);
    let Ok(grant) = admit_within(&contract, &host, &mut Steps::new(STEPS)) else {
        return Ok(Outcome::Refused);
    };
    let (mut jobs, mut reached) = (0, 0);
    for cpu in 0..contract.cpus {
        let here = |task: &&Task| {
            grant.tasks.iter().any(|granted| granted.name == task.name() && granted.cpu == cpu)
        };
        let tasks: Vec<Task> = contract.tasks.iter().filter(here).cloned().collect();
        if tasks.is_empty() {
            continue;
        }
        let granted = grant.tasks.iter().filter(|granted| granted.cpu == cpu).cloned().collect();
        let granted = Grant { tasks: granted, ..grant.clone() };
        let own = Contract::of_tasks(contract.policy, 1, tasks);
        let mut summary = Summary::new(&own.tasks);
        for _ in 0..RUNS {
            let late = run(&own, &host, &mut rng, &mut summary);
            if late + summary.late() > 0 {
                return Err(format!("seed {seed}: a job is late on CPU {cpu}: {contract:#?}"));
            }
        }
        reached += within_bounds(&granted, &summary)
            .map_err(|why| format!("seed {seed}: CPU {cpu}: {why}: {contract:#?} on {host:?}"))?;
        jobs += summary.jobs();
    }
    let tasks = contract.tasks.len() as u64;
    Ok(Outcome::Kept { policy: contract.policy, jobs, reached, tasks })
}

/// Returns how many tasks reached their bounds, or fails with a task that exceeded its bound.
fn within_bounds(grant: &Grant, summary: &Summary) -> Result<u64, String> {
    let mut reached = 0;
    for (task, seen) in grant.tasks.iter().zip(summary.tasks()) {
        let (worst, bound) = (seen.response_time.max(), task.response_time_bound);
        if worst > Some(bound) {
            return Err(format!("{} took {worst:?}, its bound is {bound}", task.name));
        }
        reached += u64::from(worst == Some(bound));
    }
    Ok(reached)
}

/// Runs the tasks once, with drawn arrivals, yield points and holders of reservations. Returns how
/// many jobs were not complete when their deadline had passed; the other jobs are in `summary`.
fn run(
    contract: &Contract,
    host: &HostProfile,
    rng: &mut ChaCha8Rng,
    summary: &mut Summary,
) -> u64 {
    let tasks = &contract.tasks;
    let of_all = |of: fn(&Task) -> Duration| tasks.iter().map(of).max().unwrap_or_default();
    let until = Instant::ZERO + of_all(Task::min_inter_arrival) * 6 + of_all(Task::release_jitter);
    let lead = host.context_switch.at_full_speed();
    let seed = rng.random();
    let fresh = || ChaCha8Rng::seed_from_u64(seed);
    let mut pattern: Box<dyn Arrivals> = match rng.random_range(0..6) {
        0 => Box::new(Adversarial::new(tasks, Attack::default())),
        1 | 2 => Box::new(Adversarial::new(tasks, attack(tasks, lead, rng))),
        3 => Box::new(Periodic::new(tasks, &phases(tasks, rng))),
        4 => Box::new(Drawn::new(tasks, fresh())),
        _ => Box::new(Bursty::new(tasks, fresh())),
    };
    let mut timed;
    let mut arrivals: &mut dyn Arrivals = &mut *pattern;
    if rng.random_bool(0.2) {
        timed = DrawnTimes::new(tasks, arrivals, fresh());
        arrivals = &mut timed;
    }
    let often = [0.0, 0.5, 1.0][rng.random_range(0..3)];
    let eager: Vec<bool> = tasks.iter().map(|_| rng.random_bool(often)).collect();
    let jobs = Jobs::of(contract.policy, tasks, 0);
    let &HostProfile { context_switch: switch, wake_up, .. } = host;
    let costs = Overheads { switch, wake_up, ..Overheads::default() };
    let setting = Setting::default().costing(costs).yielding(Eager(&eager));
    if contract.reservations.is_empty() {
        return run_in(setting, tasks, jobs, &mut arrivals, until, summary).len() as u64;
    }
    let demand = if rng.random() { Demand::Always } else { Demand::Drawn };
    let reservations: Vec<_> =
        contract.reservations.iter().map(|named| (named.reservation, demand)).collect();
    let servers = Servers::new(&reservations, None, fresh()).expect("admitted reservations");
    let end = until + of_all(Task::relative_deadline) + Duration::from_nanos(1);
    let setting = setting.on(servers, end);
    // Everything that arrived before `until` is due before `end`.
    run_in(setting, tasks, jobs, &mut arrivals, until, summary).len() as u64
}

/// Draws an attack: a blocker at random or the one with the longest quantum, aligned or not.
fn attack(tasks: &[Task], lead: Duration, rng: &mut ChaCha8Rng) -> Attack {
    let count = tasks.len() as u32;
    let any = |rng: &mut ChaCha8Rng| rng.random_range(0..count);
    let longest = (0..count).max_by_key(|&task| tasks[task as usize].quantum());
    let blocker = if rng.random() { longest } else { Some(any(rng)) };
    let aligned = rng.random::<bool>().then(|| Aligned {
        task: any(rng),
        with: any(rng),
        job: rng.random_range(0..4),
    });
    // An aligned task cannot be the blocker too.
    let blocker = blocker.filter(|&task| aligned.is_none_or(|aligned| aligned.task != task));
    Attack { blocker, lead, aligned }
}

fn phases(tasks: &[Task], rng: &mut ChaCha8Rng) -> Vec<Duration> {
    // Shifted by the largest jitter, so that every phase is reached from a release after zero.
    let shift = tasks.iter().map(Task::release_jitter).max().unwrap_or_default();
    let phase = |task: &Task| rng.random_range(0..task.min_inter_arrival().as_nanos());
    tasks.iter().map(phase).map(|phase| Duration::from_nanos(phase) + shift).collect()
}
