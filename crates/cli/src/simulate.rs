//! `punctual simulate`: a contract under its own policy, in virtual time.

mod perfetto;
mod text;

use std::path::PathBuf;

use punctual_analysis::{Grant, Refusal, admit};
use punctual_model::{Contract, Duration, Instant, Task, TaskSpec, units};
use punctual_policy::jobs::Jobs;
use punctual_sim::arrivals::{Drawn, Periodic};
use punctual_sim::tasks;
use punctual_trace::{Event, Sink, Summary, TaskSummary};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::Serialize;

use crate::exit::{Exit, Failure, Outcome};
use crate::{admit as admission, contract_file, output};
use perfetto::Slices;

const EXAMPLES: &str = "\
Examples:
  punctual simulate studio.toml
      the critical instant: everything released together, as densely and for as long as it may
  punctual simulate studio.toml --seed 7 --until 60s
      arrivals, jitter and running times drawn within the contract; the seed replays the run
  punctual simulate studio.toml --until 100ms --perfetto studio.json
      who ran when, for the Perfetto trace viewer

Reservations run above all tasks and always use their whole budget. Switching costs nothing.

Exit codes: 0 no job was late, 1 one was, 2 bad usage or bad contract.";

/// Runs a contract under its own policy in virtual time
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The contract, a TOML file; "-" reads standard input
    contract: PathBuf,
    /// Draw arrivals and running times; the same seed gives the same run
    #[arg(long)]
    seed: Option<u64>,
    /// Virtual time after which nothing more is released
    #[arg(long, default_value = "10s", value_parser = parse_time)]
    until: Duration,
    /// Print JSON, times in nanoseconds
    #[arg(long)]
    json: bool,
    /// Also write who ran when, as trace-event JSON
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
}

fn parse_time(text: &str) -> Result<Duration, String> {
    match units::parse_nanos(text) {
        Ok(0) => Err("it must be at least 1ns".into()),
        Ok(nanos) => Ok(Duration::from_nanos(nanos)),
        Err(why) => Err(format!("the time {why}")),
    }
}

/// What became of one task or reservation.
#[derive(Serialize)]
struct Outcomes {
    name: String,
    cpu: u16,
    jobs: u64,
    late: u64,
    gave_way: u64,
    max_response_time_ns: Option<u64>,
    /// What admission promised; absent if it did not.
    response_time_bound_ns: Option<u64>,
    relative_deadline_ns: u64,
}

pub(crate) fn main(args: &Args) -> Outcome {
    let contract = contract_file::read(&args.contract)?;
    let answer = admit(&contract, &admission::this_host());
    let mut slices = args.perfetto.as_deref().map(Slices::beside).transpose()?;
    let mut outcomes = Vec::new();
    for cpu in 0..contract.cpus {
        let entries = entries_on(cpu, &contract, &answer)?;
        if entries.is_empty() {
            continue;
        }
        let summary = run(args, &contract, cpu, &entries, slices.as_mut());
        let seen = entries.into_iter().zip(summary.tasks());
        outcomes.extend(seen.map(|(entry, seen)| outcome(entry, cpu, seen)));
    }
    if let Some(slices) = slices {
        slices.finish()?;
    }
    let page = if args.json {
        // Cannot fail: no map with keys that are not text, no writer.
        serde_json::to_string_pretty(&outcomes).unwrap_or_default() + "\n"
    } else {
        text::page(&outcomes, args.until, args.seed, answer.is_ok())
    };
    output::print(&page)?;
    let late = outcomes.iter().any(|entry| entry.late > 0);
    Ok(if late { Exit::Refused } else { Exit::Kept })
}

/// A task, or a reservation in the form of one, and what admission proved of it.
struct Entry {
    task: Task,
    bound: Option<Duration>,
    is_reservation: bool,
}

/// What runs on `cpu`: tasks first, then reservations.
fn entries_on(
    cpu: u16,
    contract: &Contract,
    answer: &Result<Grant, Box<Refusal>>,
) -> Result<Vec<Entry>, Failure> {
    let grant = answer.as_ref().ok();
    if grant.is_none() && contract.cpus > 1 {
        return Err(Failure::bad_input(
            "the contract is refused, so nothing says what runs on which of its CPUs; see what \
             would fit with: punctual admit",
        ));
    }
    let here = |placed: Option<u16>| placed.unwrap_or(0) == cpu;
    let tasks = contract.tasks.iter().enumerate().filter_map(|(at, task)| {
        let granted = grant.map(|grant| &grant.tasks[at]);
        here(granted.map(|granted| granted.cpu)).then(|| Entry {
            task: task.clone(),
            bound: granted.map(|granted| granted.response_time_bound),
            is_reservation: false,
        })
    });
    let reservations = contract.reservations.iter().enumerate().filter_map(|(at, named)| {
        let granted = grant.map(|grant| &grant.reservations[at]);
        let reservation = named.reservation;
        here(granted.map(|granted| granted.cpu)).then(|| Entry {
            // A valid reservation has 0 < budget ≤ period, which is all that a task needs.
            task: Task::new(TaskSpec::periodic(
                &named.name,
                reservation.period(),
                reservation.budget(),
            ))
            .expect("a valid reservation is a valid task"),
            bound: None,
            is_reservation: true,
        })
    });
    Ok(tasks.chain(reservations).collect())
}

fn run(
    args: &Args,
    contract: &Contract,
    cpu: u16,
    entries: &[Entry],
    slices: Option<&mut Slices>,
) -> Summary {
    let tasks: Vec<Task> = entries.iter().map(|entry| entry.task.clone()).collect();
    let reserved = entries.iter().filter(|entry| entry.is_reservation).count();
    let policy = Jobs::of(contract.policy, &tasks[..tasks.len() - reserved], reserved as u32);
    let until = Instant::ZERO + args.until;
    let names = tasks.iter().map(Task::name).collect();
    let mut sink = Both { summary: Summary::new(&tasks), slices, cpu, names };
    match args.seed {
        None => {
            // Released together when each is as late as it may be: the critical instant.
            let largest = tasks.iter().map(Task::release_jitter).max().unwrap_or_default();
            let mut arrivals = Periodic::new(&tasks, &vec![largest; tasks.len()]);
            tasks::run(&tasks, policy, &mut arrivals, until, &mut sink);
        }
        Some(seed) => {
            let rng = ChaCha8Rng::seed_from_u64(seed.wrapping_add(u64::from(cpu)));
            tasks::run(&tasks, policy, &mut Drawn::new(&tasks, rng), until, &mut sink);
        }
    }
    sink.summary
}

/// Every event goes into the summary, and into the trace if there is one.
struct Both<'a> {
    summary: Summary,
    slices: Option<&'a mut Slices>,
    cpu: u16,
    names: Vec<&'a str>,
}

impl Sink for Both<'_> {
    fn record(&mut self, event: Event) {
        self.summary.record(event);
        if let Some(slices) = &mut self.slices {
            slices.record(self.cpu, self.names[event.job.task as usize], event);
        }
    }
}

fn outcome(entry: Entry, cpu: u16, seen: &TaskSummary) -> Outcomes {
    Outcomes {
        name: entry.task.name().to_owned(),
        cpu,
        jobs: seen.jobs,
        late: seen.late,
        gave_way: seen.gave_way,
        max_response_time_ns: seen.response_time.max().map(Duration::as_nanos),
        response_time_bound_ns: entry.bound.map(Duration::as_nanos),
        relative_deadline_ns: entry.task.relative_deadline().as_nanos(),
    }
}
