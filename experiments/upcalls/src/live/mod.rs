//! Runs the paper's comparison on this machine: immediate preemption against delayed, live.

mod process;
mod run;
mod summary;

use std::path::PathBuf;
use std::{fs, io};

use clap::ValueEnum;
use rand::SeedableRng;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use run::Case;

pub(crate) use process::play;

/// The scheduling of upcalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Deserialize, Serialize)]
pub(crate) enum Mode {
    /// A SCHED_FIFO thread for each upcall, preemptible anywhere
    Immediate,
    /// Delayed preemption, each thread lowers itself
    ByItself,
    /// Delayed preemption, the successor lowers its predecessor
    BySuccessor,
    /// Delayed preemption by the successor, with a turn allowance
    Allowance,
}

/// The phases of the releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
pub(crate) enum Phases {
    /// Each process at a random instant of the first 90 ms
    Random,
    /// All at once
    Synchronous,
}

/// Immediate against delayed preemption, live, on one CPU
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds a run; a hyperperiod is 25.2
    #[arg(long, default_value_t = 25.2)]
    seconds: f64,
    /// Different drawings; each is run there and back (ABBA)
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    /// Nominal utilisation of the CPU
    #[arg(long, default_value_t = 0.85)]
    utilisation: f64,
    /// Working sets of an upcall in KiB
    #[arg(long, value_delimiter = ',', default_values_t = [64, 256, 1024])]
    footprints: Vec<usize>,
    /// The phases of the releases
    #[arg(long, value_delimiter = ',', default_values = ["random", "synchronous"])]
    phases: Vec<Phases>,
    /// The modes to compare
    #[arg(long, value_delimiter = ',', default_values = ["immediate", "by-itself", "by-successor", "allowance"])]
    modes: Vec<Mode>,
    /// PDUs of a batch of eight between two yield points
    #[arg(long, default_value_t = 8)]
    quantum: u32,
    /// Turn allowance in µs, in modes that have one
    #[arg(long, default_value_t = 2_000)]
    allowance: u64,
    /// The CPU; the last one by default
    #[arg(long)]
    cpu: Option<usize>,
    /// Also search for the highest utilisation without a late job, in this many halvings
    #[arg(long, default_value_t = 0)]
    halvings: u32,
    /// Write each run as a line of JSON and the tables into this directory
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

/// Runs all cases, and prints the tables.
pub(crate) fn compare(args: &Args) -> Result<(), Box<dyn std::error::Error>> {
    let allowed = punctual_linux::thread::affinity();
    let cpu = args.cpu.or(allowed.last().copied()).ok_or("no CPU to run on")?;
    let mut plan = Vec::new();
    for footprint in &args.footprints {
        for phases in &args.phases {
            for seed in 0..args.seeds {
                let mut order = args.modes.clone();
                order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
                let back: Vec<Mode> = order.iter().rev().copied().collect();
                for (pass, mode) in
                    order.into_iter().map(|m| (0, m)).chain(back.into_iter().map(|m| (1, m)))
                {
                    plan.push(Case {
                        mode,
                        phases: *phases,
                        footprint: footprint * 1024,
                        utilisation: args.utilisation,
                        seed,
                        pass,
                    });
                }
            }
        }
    }
    let edges = args.footprints.len() * args.phases.len() * args.modes.len() * args.seeds as usize;
    let runs = plan.len() + edges * args.halvings as usize;
    let minutes = runs as f64 * (args.seconds + 1.5) / 60.0;
    eprintln!("{runs} runs of {} s on CPU {cpu}: about {minutes:.0} minutes", args.seconds);

    let setting =
        run::Setting::new(cpu, args.seconds, args.quantum, args.allowance, &args.footprints)?;
    let mut done = Vec::new();
    for (number, case) in plan.iter().enumerate() {
        let result = setting.run(case)?;
        eprintln!("{:3}/{runs} {}", number + 1, result.line());
        done.push(result);
    }
    let mut tables = summary::tables(&done, &args.modes);
    if args.halvings > 0 {
        tables.push(summary::edges(&setting, args, &mut done)?);
    }
    let host = format!(
        "CPU {cpu}; {} s a run; quantum {} of 8 PDUs; allowance {} µs; {} of {} runs set aside for \
         stolen time\n\n",
        args.seconds,
        args.quantum,
        args.allowance,
        done.iter().filter(|run| run.is_disturbed()).count(),
        done.len(),
    );
    let page: String = tables.iter().map(|table| table.to_text() + "\n").collect();
    io::Write::write_all(&mut io::stdout(), (host.clone() + &page).as_bytes())?;
    if let Some(directory) = &args.results {
        fs::create_dir_all(directory)?;
        fs::write(directory.join("live.txt"), host + &page)?;
        let lines: Result<Vec<String>, _> = done.iter().map(serde_json::to_string).collect();
        fs::write(directory.join("live.jsonl"), lines?.join("\n") + "\n")?;
    }
    Ok(())
}
