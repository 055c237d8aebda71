//! The study as subcommands.

use clap::Subcommand;

use crate::{live, map};

/// Which half of the study.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// On this host: each context, its services, and what it does to others; as root
    Live(live::Args),
    /// In virtual time: which reservations serve the modem; the same on every machine
    Map(map::Args),
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The live half.
    #[error(transparent)]
    Live(#[from] live::Error),
    /// The half in virtual time.
    #[error(transparent)]
    Map(#[from] map::Error),
}

/// Runs it, and prints what came of it.
pub fn run(command: &Command) -> Result<(), Error> {
    match command {
        Command::Live(args) => live::main(args)?,
        Command::Map(args) => map::main(args)?,
    }
    Ok(())
}
