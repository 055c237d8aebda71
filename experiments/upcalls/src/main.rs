//! Studies real-time upcalls: how much each test admits, what delayed preemption saves, and how
//! tight every test of this project is. These are in virtual time, so exact and the same on every
//! machine. `live` runs the same comparison on this one, and `udp` runs client and server over UDP.

mod admission;
mod live;
mod sets;
mod switches;
mod table;
mod tightness;
mod udp;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use table::Table;

/// The studies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Study {
    /// Random sets of upcalls: what each test admits, and up to which utilisation
    Admission,
    /// Delayed against immediate preemption: switches and late jobs
    Switches,
    /// Every test against feasibility
    Tightness,
}

/// Commands that are not studies in virtual time.
#[derive(Subcommand)]
enum Command {
    /// Immediate against delayed preemption on this machine, as root
    Live(live::Args),
    /// One of its processes
    #[command(hide = true)]
    LiveProcess {
        /// The role of the process
        role: String,
    },
    /// Client and server over UDP, as upcalls and as plain processes, as root
    Udp(udp::Args),
    /// One of its processes
    #[command(hide = true)]
    UdpProcess {
        /// The role of the process
        role: String,
    },
}

/// The study of real-time upcalls, in virtual time
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The studies to run; all by default
    studies: Vec<Study>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also write each table as CSV into this directory, and all as text
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Random sets of the admission study; the others scale with it
    #[arg(long, default_value_t = 40_000)]
    sets: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let live = match &args.command {
        Some(Command::Live(live)) => Some(live::compare(live)),
        Some(Command::LiveProcess { role }) => Some(live::play(role)),
        Some(Command::Udp(udp)) => Some(udp::compare(udp)),
        Some(Command::UdpProcess { role }) => Some(udp::play(role)),
        None => None,
    };
    match live {
        Some(Ok(())) => return ExitCode::SUCCESS,
        Some(Err(error)) => {
            eprintln!("the upcalls could not be run: {error}");
            return ExitCode::from(3);
        }
        None => {}
    }
    let mut done = Vec::new();
    for study in [Study::Admission, Study::Switches, Study::Tightness] {
        if !args.studies.is_empty() && !args.studies.contains(&study) {
            continue;
        }
        let tables = match study {
            Study::Admission => {
                vec![admission::acceptance(args.sets), admission::breakdown(args.sets / 100)]
            }
            Study::Switches => vec![switches::counts(), switches::misses()],
            Study::Tightness => tightness::tables(args.sets / 100),
        };
        done.push((study, tables));
    }
    match publish(&args, &done) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the results could not be written: {error}");
            ExitCode::from(2)
        }
    }
}

fn publish(args: &Args, done: &[(Study, Vec<Table>)]) -> io::Result<()> {
    let tables: Vec<&Table> = done.iter().flat_map(|(_, tables)| tables).collect();
    let page = if args.json {
        serde_json::to_string_pretty(&tables)? + "\n"
    } else {
        tables.iter().map(|table| table.to_text() + "\n").collect()
    };
    io::stdout().write_all(page.as_bytes())?;
    match &args.results {
        Some(directory) => write_into(directory, done),
        None => Ok(()),
    }
}

fn write_into(directory: &Path, done: &[(Study, Vec<Table>)]) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for (study, tables) in done {
        for table in tables {
            fs::write(directory.join(table.name).with_extension("csv"), table.to_csv())?;
        }
        let text: Vec<String> = tables.iter().map(Table::to_text).collect();
        let name = study.to_possible_value().map_or_else(String::new, |v| v.get_name().into());
        fs::write(directory.join(name).with_extension("txt"), text.join("\n"))?;
    }
    Ok(())
}
