//! The `soft-modem` program: the study's parts as subcommands.

use std::process::ExitCode;

use clap::Parser;
use punctual_frontend::exit::{self, Failure};
use soft_modem::command::{self, Command};

const EXAMPLES: &str = "\
Examples:
  soft-modem live                   two minutes on this host, as root
  soft-modem live --trace D         every service, for punctual why, report and export
  soft-modem transfers --results D  a quarter of an hour on this host, as root
  soft-modem map --html study.html  in virtual time: the same on every machine

Exit codes: 0 done, 2 bad usage, 3 this host cannot.";

/// Repeats the soft modem study: one driver in interrupt, softirq, thread and reserved context
#[derive(Parser)]
#[command(name = "soft-modem", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    match command::run(&Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&Failure::from(error)),
    }
}
