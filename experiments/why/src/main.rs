//! The confusion table of `punctual why`: makes jobs late on purpose, in each way that a host can
//! be made to, and counts the causes that the verdict names.
//!
//! The victim is this program again ([`victim`]): a periodic thread on CPU 0. It is made late by
//! itself or by [`punctual_observe::inject`]. The machine is shared: late jobs from other causes
//! come between, and are counted like all others.

mod injection;
mod table;
mod victim;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use injection::Kind;

/// Compares injected causes of lateness with those that punctual why names
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Makes late jobs of each kind, or of those named, and prints the table
    Table {
        /// The late jobs of each kind
        #[arg(long, default_value_t = 200)]
        late: usize,
        /// The most seconds for each kind
        #[arg(long, default_value_t = 40)]
        seconds: u64,
        /// The program for throttling by a timetable
        #[arg(long, default_value = "target/release/punctual")]
        punctual: PathBuf,
        /// Only these kinds
        #[arg(value_enum)]
        only: Vec<Kind>,
    },
    /// Runs the thread that is made late
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
