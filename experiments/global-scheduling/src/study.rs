//! Studies one contract on several processors with one queue: the proven bounds of its tasks, and
//! the response times of a run.

use punctual_analysis::{Steps, mapping};
use punctual_model::{Contract, Duration, HostProfile, Instant, Policy, Task};
use punctual_sim::arrivals::{Arrivals, Drawn, Periodic};
use punctual_trace::{Summary, TaskSummary};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::bounds::{fixed_priority, workload};
use crate::policy::Global;
use crate::simulation;

/// The most jobs of a run: some minutes.
const MOST_JOBS: u64 = 500_000_000;

/// A task, its proven response times, and those of a run.
#[derive(Debug)]
pub struct Seen {
    /// The declared task.
    pub task: Task,
    /// The bound from the window with few carry-in tasks, under fixed priorities.
    pub few_carriers: Option<Duration>,
    /// The bound from the workload of the other tasks.
    pub workload: Option<Duration>,
    /// The observations of the run.
    pub seen: TaskSummary,
}

/// Runs `contract` on `cpus` CPUs that share one queue, in its own order, until no more jobs are
/// released. With a seed everything is drawn within the contract; otherwise all tasks are released
/// together, at their highest rates.
///
/// # Errors
/// Fails with a sentence if the contract has more than tasks, or an order that does not apply to
/// several CPUs, or is too long to run.
pub fn of(
    contract: &Contract,
    cpus: u16,
    seed: Option<u64>,
    until: Duration,
) -> Result<Vec<Seen>, String> {
    let host = HostProfile::ideal(cpus);
    let (contract, _) = mapping::expand(contract, &host).map_err(|why| why.to_string())?;
    if !contract.channels.is_empty() || !contract.receiving.is_empty() {
        return Err("the handlers of channels stay on one CPU".into());
    }
    if !contract.reservations.is_empty() {
        return Err("reservations belong to a CPU, which one queue of tasks does not know".into());
    }
    let tasks = &contract.tasks[..];
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    match contract.policy {
        Policy::Rmdp | Policy::Rm => order.sort_by_key(|&at| tasks[at].min_inter_arrival()),
        Policy::Fp | Policy::Edf => {}
        other => return Err(format!("there is no \"{}\" over several CPUs", other.name())),
    }
    let jobs = tasks.iter().map(|task| until / task.min_inter_arrival());
    let all = jobs.fold(0, u64::saturating_add);
    if all > MOST_JOBS {
        return Err(format!("{all} jobs are too many to run; at most {MOST_JOBS} are not"));
    }
    let (steps, ranked) = (&mut Steps::default(), order.iter().map(|&at| tasks[at].clone()));
    let ranked: Vec<Task> = ranked.collect();
    let (policy, few_carriers, workload) = if contract.policy == Policy::Edf {
        let all = workload::earliest_deadline(tasks, cpus, steps);
        let each = (0..tasks.len()).map(|at| all.as_ref().map(|all| all[at])).collect();
        (Global::earliest_deadline(cpus.into(), tasks.len()), vec![None; tasks.len()], each)
    } else {
        let numbers: Vec<u32> = order.iter().map(|&at| at as u32).collect();
        let few_carriers = fixed_priority::response_times(&ranked, cpus, steps);
        let workload = workload::fixed_priority(&ranked, cpus, workload::Slack::Used, steps);
        (Global::fixed_priority(cpus.into(), &numbers), few_carriers, workload)
    };
    let mut arrivals: Box<dyn Arrivals> = match seed {
        Some(seed) => Box::new(Drawn::new(tasks, ChaCha8Rng::seed_from_u64(seed))),
        None => {
            let latest = tasks.iter().map(Task::release_jitter).max().unwrap_or_default();
            Box::new(Periodic::new(tasks, &vec![latest; tasks.len()]))
        }
    };
    let (mut summary, until) = (Summary::new(tasks), Instant::ZERO + until);
    simulation::run(tasks, cpus.into(), policy, &mut arrivals, until, &mut summary);
    let seen = order.iter().zip(ranked).zip(few_carriers.into_iter().zip(workload));
    let seen = seen.map(|((&at, task), (few_carriers, workload))| Seen {
        task,
        few_carriers,
        workload,
        seen: summary.tasks()[at].clone(),
    });
    Ok(seen.collect())
}
