//! `soft-modem live`, `soft-modem map`.

use std::process::ExitCode;

use clap::Parser;
use soft_modem::command::{self, Command};

/// The soft modem study, live and in virtual time
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    match command::run(&Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("soft-modem: {error}");
            ExitCode::from(if error.is_of_input() { 2 } else { 3 })
        }
    }
}
