//! `--witness`: a schedule within the contract in which a job is late.

use std::cell::RefCell;
use std::fmt::Write;

use punctual_analysis::{Grant, Refusal};
use punctual_model::{Contract, Duration, HostProfile, Instant, Policy};
use punctual_policy::jobs::Jobs;
use punctual_sim::witness::{Budget, Witness, search};
use punctual_trace::{Event, Sink};
use serde::Serialize;

use super::entries::{OnCpu, on_cpu, unplaced};
use super::options::Args;
use super::text::table;
use super::traces::Traces;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use punctual::host::Stamp;

/// Releases shown to a person: the last ones.
const SHOWN: usize = 24;

#[derive(Serialize)]
struct Page {
    admitted: bool,
    /// Jobs simulated on each CPU at most.
    budget_jobs: u64,
    /// Null: none was found.
    witness: Option<Found>,
    host_profile: Stamp,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Found {
    cpu: u16,
    /// The job with the earliest deadline of those that are late.
    task: String,
    job: u64,
    release_ns: u64,
    absolute_deadline_ns: u64,
    completion_ns: u64,
    /// All that are known before that job is complete, in the order in which they become known.
    releases: Vec<Release>,
}

#[derive(Serialize)]
struct Release {
    task: String,
    job: u64,
    release_ns: u64,
    known_ns: u64,
    exec_time_ns: u64,
    absolute_deadline_ns: u64,
}

pub(super) fn main(
    args: &Args,
    contract: &Contract,
    declared: &str,
    host: &HostProfile,
    answer: &Result<Grant, Box<Refusal>>,
    stamp: &Stamp,
    notes: Vec<String>,
) -> Outcome {
    unplaced(args, contract, answer)?;
    if contract.tasks.is_empty() {
        return Err(Failure::bad_input(
            "--witness looks for a late job of a task, and this contract has no tasks",
        ));
    }
    if answer.as_ref().is_ok_and(|grant| !grant.timetables.is_empty()) {
        return Err(Failure::bad_input(
            "--witness: the search does not know the timetable in whose slots the commands of this contract run; run it \
             without",
        ));
    }
    let mut traces = Traces::of(args, declared)?;
    let budget = Budget::default();
    let found = (0..contract.cpus).find_map(|cpu| {
        // The handlers of channels stay out: their time in one piece need not be possible.
        let on_cpu = on_cpu(cpu, contract, answer);
        let tasks = on_cpu.as_tasks();
        let flat = Jobs::of(contract.policy, &tasks[..on_cpu.tasks], on_cpu.kernel as u32);
        // The search has reservations as the most urgent tasks, which yield points of others delay.
        let witness = search(&tasks, &flat, budget)?;
        let witness = witness.in_layers(&tasks, on_cpu.kernel, jobs(contract.policy, &on_cpu))?;
        Some((cpu, on_cpu, witness))
    });
    if let Some((cpu, on_cpu, witness)) = &found {
        traces.turn_to(*cpu, on_cpu)?;
        let traces = RefCell::new(&mut traces);
        let named = |first| Named { traces: &traces, cpu: *cpu, on_cpu, first };
        let (policy, above) = (jobs(contract.policy, on_cpu), named(on_cpu.tasks));
        let tasks = on_cpu.as_tasks();
        witness.replay_in_layers(&tasks, on_cpu.kernel, policy, above, &mut named(0));
    }
    traces.finish(Instant::ZERO, host, stamp)?;
    let exit = if found.is_some() { Exit::Refused } else { Exit::Kept };
    let page = Page {
        admitted: answer.is_ok(),
        budget_jobs: budget.jobs,
        witness: found.map(|(cpu, on_cpu, witness)| describe(cpu, &on_cpu, &witness)),
        host_profile: stamp.clone(),
        notes,
    };
    output::print(&if args.json {
        // Cannot fail: no map with keys that are not text, no writer.
        serde_json::to_string_pretty(&page).unwrap_or_default() + "\n"
    } else {
        text(&page, contract) + &page.host_profile.line() + "\n"
    })?;
    Ok(exit)
}

/// Returns the order of a CPU's tasks, beneath its reservations.
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
    // Stable: what becomes known at one instant stays in the order of the contract.
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

fn text(page: &Page, contract: &Contract) -> String {
    let answer = if page.admitted { "admits" } else { "refuses" };
    let Some(found) = &page.witness else {
        let mut text = format!(
            "no schedule with a late job was found in {} simulated jobs a CPU; admission {answer} \
             this contract\n",
            page.budget_jobs
        );
        if !contract.channels.is_empty() {
            text += "the handlers of channels were left out\n";
        }
        if !contract.reservations.is_empty() {
            text += "reservations used their budgets once a period; admission also counts on budgets \
                     late in one period and early in the next\n";
        }
        return text;
    };
    let mut jobs = table(&["task", "job", "released", "known", "runs for", "due"]);
    let hidden = found.releases.len().saturating_sub(SHOWN);
    for release in &found.releases[hidden..] {
        let [released, known, runs, due] = [
            release.release_ns,
            release.known_ns,
            release.exec_time_ns,
            release.absolute_deadline_ns,
        ]
        .map(|nanos| Duration::from_nanos(nanos).to_string());
        jobs.add_row([release.task.clone(), release.job.to_string(), released, known, runs, due]);
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    if hidden > 0 {
        let _ = writeln!(text, "{hidden} earlier releases, and then");
    }
    let at = Instant::from_nanos;
    let late = at(found.completion_ns) - at(found.absolute_deadline_ns);
    let response = Duration::from_nanos(found.completion_ns - found.release_ns);
    let _ = writeln!(
        text,
        "{jobs}\n\njob {} of task \"{}\" on CPU {}, released at {}, is due at {} and complete at {}: \
         {late} late, {response} after its release; admission {answer} this contract",
        found.job,
        found.task,
        found.cpu,
        Duration::from_nanos(found.release_ns),
        Duration::from_nanos(found.absolute_deadline_ns),
        Duration::from_nanos(found.completion_ns),
    );
    text
}

/// Into the trace, with names, those of the entries from `first` on.
struct Named<'a, 'b> {
    traces: &'a RefCell<&'b mut Traces>,
    cpu: u16,
    on_cpu: &'a OnCpu,
    first: usize,
}

impl Sink for Named<'_, '_> {
    fn record(&mut self, event: Event) {
        let mut event = event;
        event.job.task += self.first as u32;
        let name = self.on_cpu.entries[event.job.task as usize].task.name();
        self.traces.borrow_mut().record(self.cpu, name, event);
    }
}
