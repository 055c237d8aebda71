//! The confusion table of `punctual why`: late jobs are made on purpose, of each kind that a host can be
//! made to produce, and what the verdict names is counted.
//!
//! The victim is this program again ([`victim`]): a periodic thread on CPU 0. What makes it late is done by
//! itself or by [`punctual_observe::inject`]. The machine is shared: late jobs from other causes come
//! between, and are counted like all others.

mod injection;
mod table;
mod victim;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use injection::Kind;

/// What was injected against what punctual why names
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Makes late jobs of each kind, or of those named, and prints the table
    Table {
        /// Of each kind
        #[arg(long, default_value_t = 200)]
        late: usize,
        /// At most so many seconds for each kind
        #[arg(long, default_value_t = 40)]
        seconds: u64,
        /// For throttling by a timetable
        #[arg(long, default_value = "target/release/punctual")]
        punctual: PathBuf,
        /// Only these
        #[arg(value_enum)]
        only: Vec<Kind>,
    },
    /// The thread that is made late
    Victim {
        #[arg(value_enum)]
        kind: Kind,
    },
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Victim { kind } => {
            victim::run(kind);
            ExitCode::SUCCESS
        }
        Command::Table { late, seconds, punctual, only } => {
            let all = <Kind as clap::ValueEnum>::value_variants();
            let kinds = if only.is_empty() { all } else { &only };
            table::run(kinds, late, seconds, &punctual);
            ExitCode::SUCCESS
        }
    }
}
