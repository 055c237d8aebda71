//! Compares the findings of `punctual fit` with programs whose period and demand are known.
//!
//! `fit-study run` starts each of [`cases`] under `punctual fit --json` and prints known against
//! found values; `fit-study program` runs the programs that belong to this study ([`program`]).

mod cases;
mod program;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What punctual fit finds, against programs whose period and demand are known
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs all programs, or those named, and prints the table
    Run {
        /// The program under study
        #[arg(long, default_value = "target/release/punctual")]
        punctual: PathBuf,
        /// Watch each for this many seconds, and try for as many
        #[arg(long, default_value_t = 8)]
        seconds: u32,
        /// Write the answer to each into this folder, as JSON
        #[arg(long)]
        results: Option<PathBuf>,
        /// Only cases whose names contain one of these
        only: Vec<String>,
    },
    /// Runs one of the known programs until it is killed
    Program {
        #[arg(value_enum)]
        which: program::Which,
    },
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Program { which } => {
            program::run(which);
            ExitCode::SUCCESS
        }
        Command::Run { punctual, seconds, results, only } => {
            match table::run(&punctual, seconds, results.as_deref(), &only) {
                Ok(()) => ExitCode::SUCCESS,
                Err(why) => {
                    eprintln!("fit-study: {why}");
                    ExitCode::from(3)
                }
            }
        }
    }
}
