//! Searches for a schedule within the contract in which a job is late.

use std::cell::RefCell;

use punctual_analysis::Grant;
use punctual_model::{Contract, HostProfile, Policy};
use punctual_policy::jobs::Jobs;
use punctual_sim::witness::{self, Budget, Witness};
use punctual_trace::{Event, Sink};
use serde::Serialize;

use super::cpus::{OnCpu, Watching, on_cpu};
use super::options::Options;
use super::placed::{Placed, host_of};
use crate::host::{Chosen, Stamp};
use crate::{Failure, Remedy};

/// The result of a search. Field names are part of the interface.
#[derive(Clone, Debug, Serialize)]
pub struct Search {
    /// Whether the contract is admitted.
    pub admitted: bool,
    /// The most jobs that are simulated on each CPU.
    pub budget_jobs: u64,
    /// The schedule; null if none was found.
    pub witness: Option<Found>,
    /// The host profile with the costs that admission charged.
    pub host_profile: Stamp,
    /// The host for which the contract was admitted.
    #[serde(skip)]
    pub host: HostProfile,
}

/// A schedule in which a job is late.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// The CPU.
    pub cpu: u16,
    /// The task of the late job; of several late jobs, the one with the earliest deadline.
    pub task: String,
    /// The index of the job.
    pub job: u64,
    /// The release of the job.
    pub release_ns: u64,
    /// The absolute deadline of the job.
    pub absolute_deadline_ns: u64,
    /// The completion of the job.
    pub completion_ns: u64,
    /// The jobs that become known before the late job is complete, in the order in which they
    /// become known.
    pub releases: Vec<Release>,
}

/// A job of such a schedule.
#[derive(Clone, Debug, Serialize)]
pub struct Release {
    /// Its task.
    pub task: String,
    /// Its index.
    pub job: u64,
    /// Its nominal release.
    pub release_ns: u64,
    /// The time at which the scheduler learns of it.
    pub known_ns: u64,
    /// Its execution time.
    pub exec_time_ns: u64,
    /// Its absolute deadline.
    pub absolute_deadline_ns: u64,
}

/// Searches for a schedule of `contract` in which a job of a task is late. If one is found, it is
/// replayed to `watching`.
///
/// Switches are free in it, and channels are left out.
///
/// # Errors
/// If the contract has no tasks, has a timetable, or is refused on several CPUs; also any error of
/// `watching`.
pub fn search(
    contract: &Contract,
    chosen: &Chosen,
    watching: &mut dyn Watching,
) -> Result<Search, Failure> {
    let (host, stamp) = host_of(contract, chosen, None);
    let placed = Placed::of(contract, host, &Options::default())?;
    placed.is_placed()?;
    let Placed { contract, answer, .. } = &placed;
    if contract.tasks.is_empty() {
        return Err(Failure::bad_input(
            "the search is for a late job of a task, and this contract has no tasks; simulate it instead",
        )
        .with(Remedy::NoSearch));
    }
    let is_of_command = |grant: &Grant| grant.reservations.iter().any(|one| one.host_cpu.is_some());
    if answer.as_ref().is_ok_and(is_of_command) {
        return Err(Failure::bad_input(
            "the search does not know the timetables and servers in which the commands of this contract \
             run; simulate it instead",
        )
        .with(Remedy::NoSearch));
    }
    let budget = Budget::default();
    let found = (0..contract.cpus).find_map(|cpu| {
        // The handlers of channels are left out: a schedule in which their time comes in one piece
        // need not be possible.
        let on_cpu = on_cpu(cpu, contract, answer);
        let tasks = on_cpu.as_tasks();
        let flat = Jobs::of(contract.policy, &tasks[..on_cpu.tasks], on_cpu.kernel as u32);
        // In the search reservations are the most urgent tasks, and the yield points of other tasks
        // delay them.
        let witness = witness::search(&tasks, &flat, budget)?;
        let witness = witness.in_layers(&tasks, on_cpu.kernel, jobs(contract.policy, &on_cpu))?;
        Some((cpu, on_cpu, witness))
    });
    if let Some((cpu, on_cpu, witness)) = &found {
        watching.turn_to(*cpu, &on_cpu.subjects(*cpu))?;
        let watching = RefCell::new(watching);
        let from = |first| From { watching: &watching, first };
        let (policy, above) = (jobs(contract.policy, on_cpu), from(on_cpu.tasks));
        let tasks = on_cpu.as_tasks();
        witness.replay_in_layers(&tasks, on_cpu.kernel, policy, above, &mut from(0));
    }
    Ok(Search {
        admitted: answer.is_ok(),
        budget_jobs: budget.jobs,
        witness: found.map(|(cpu, on_cpu, witness)| describe(cpu, &on_cpu, &witness)),
        host_profile: stamp,
        host,
    })
}

/// Returns the order of a CPU's tasks, below its reservations.
fn jobs(policy: Policy, on_cpu: &OnCpu) -> Jobs {
    Jobs::of(policy, &on_cpu.as_tasks()[..on_cpu.tasks], 0)
}

fn describe(cpu: u16, on_cpu: &OnCpu, witness: &Witness) -> Found {
    let task = |at: usize| &on_cpu.entries[at].task;
    let mut releases = Vec::new();
    for (at, arrivals) in witness.arrivals.iter().enumerate() {
        let deadline = task(at).relative_deadline();
        let known = arrivals.iter().zip(0..).filter(|(job, _)| job.known < witness.completion);
        releases.extend(known.map(|(arrival, job)| Release {
            task: task(at).name().to_owned(),
            job,
            release_ns: arrival.release.as_nanos(),
            known_ns: arrival.known.as_nanos(),
            exec_time_ns: arrival.exec_time.as_nanos(),
            absolute_deadline_ns: arrival.release.saturating_add(deadline).as_nanos(),
        }));
    }
    // The sort is stable: jobs that become known at one instant stay in the order of the contract.
    releases.sort_by_key(|release| release.known_ns);
    let missed = task(witness.missed.task as usize);
    let deadline = witness.absolute_deadline;
    Found {
        cpu,
        task: missed.name().to_owned(),
        job: witness.missed.index,
        release_ns: deadline.as_nanos() - missed.relative_deadline().as_nanos(),
        absolute_deadline_ns: deadline.as_nanos(),
        completion_ns: witness.completion.as_nanos(),
        releases,
    }
}

/// A sink that passes the entries from `first` on to the observer.
struct From<'a, 'b> {
    watching: &'a RefCell<&'b mut dyn Watching>,
    first: usize,
}

impl Sink for From<'_, '_> {
    fn record(&mut self, event: Event) {
        let mut event = event;
        event.job.task += self.first as u32;
        self.watching.borrow_mut().record(event);
    }
}
