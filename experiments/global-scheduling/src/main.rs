//! Studies a contract on several processors with one queue.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use global_scheduling::bounds::density::density;
use global_scheduling::study::{self, Seen};
use punctual_model::{Contract, Duration, Policy, Task};
use punctual_sweep::sheet::{Sheet, Value};

/// Runs a contract's tasks on CPUs that share one queue, and prints their proven bounds.
///
/// Exit codes: 0 nothing was late, 1 something was, 2 bad usage or a contract that cannot be run
/// so.
#[derive(Parser)]
struct Args {
    /// The contract, a TOML file
    contract: PathBuf,
    /// The number of CPUs [default: that of the contract]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    cpus: Option<u16>,
    /// The seed of drawn arrivals and running times [default: all released together, at their
    /// highest rates]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The virtual time after which nothing more is released
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = clap::value_parser!(Duration))]
    until: Duration,
    /// Print JSON, times in nanoseconds
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    studied(&Args::parse()).unwrap_or_else(|why| {
        eprintln!("{why}");
        ExitCode::from(2)
    })
}

fn studied(args: &Args) -> Result<ExitCode, String> {
    let name = args.contract.display().to_string();
    let bytes = fs::read(&args.contract).map_err(|why| format!("{name}: {why}"))?;
    let contract = Contract::parse(&name, &bytes).map_err(|why| why.to_string())?;
    let (cpus, until) = (args.cpus.unwrap_or(contract.cpus), args.until);
    let seen = study::of(&contract, cpus, args.seed, until)?;
    let late: u64 = seen.iter().map(|task| task.seen.late).sum();
    let sheet = sheet(&seen);
    if args.json {
        println!("{:#}", sheet.to_json());
    } else {
        let jobs: u64 = seen.iter().map(|task| task.seen.jobs).sum();
        println!("{}\n\n{late} of {jobs} jobs late in {until} of virtual time", sheet.to_table());
        if contract.policy == Policy::Edf {
            let tasks: Vec<Task> = seen.into_iter().map(|task| task.task).collect();
            println!("{}", density(&tasks, cpus).why);
        }
    }
    Ok(ExitCode::from(u8::from(late > 0)))
}

fn sheet(seen: &[Seen]) -> Sheet {
    let time = |time: Option<Duration>| Value::Time(time.map(Duration::as_nanos));
    let count = |count: u64| Value::Count(count as usize);
    let row = |Seen { task, few_carriers, workload, seen }: &Seen| {
        vec![
            Value::Text(task.name().to_owned()),
            count(seen.jobs),
            count(seen.late),
            count(seen.gave_way),
            time(seen.response_time.max()),
            time(*few_carriers),
            time(*workload),
            time(Some(task.relative_deadline())),
        ]
    };
    let columns = &[
        ("name", "task"),
        ("jobs", "jobs"),
        ("late", "late"),
        ("gave_way", "gave way"),
        ("max_response_time_ns", "worst response"),
        ("few_carriers_ns", "proven, few carriers"),
        ("workload_ns", "proven, workload"),
        ("relative_deadline_ns", "relative deadline"),
    ];
    Sheet { name: "global", columns, rows: seen.iter().map(row).collect() }
}
