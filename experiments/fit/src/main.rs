//! What `punctual fit` finds, against programs whose period and demand are known.
//!
//! `fit-study run` starts each of [`cases`] under `punctual fit --json` and prints truth against found;
//! `fit-study program` is those of the programs that are ours ([`program`]).

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
        /// Watch each for so many seconds, and try for as many
        #[arg(long, default_value_t = 8)]
        seconds: u32,
        /// Where the answer to each goes, as JSON
        #[arg(long)]
        results: Option<PathBuf>,
        /// Only cases whose names contain one of these
        only: Vec<String>,
    },
    /// One of the known programs; it runs until it is ended
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
