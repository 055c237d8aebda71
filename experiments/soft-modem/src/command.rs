//! The study as subcommands.

use clap::Subcommand;
use punctual_frontend::exit::Failure;
use punctual_frontend::trace_file::refused;

use crate::{live, map};

/// The parts of the study.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// On this host: each context, its services, and its effect on other threads; as root
    Live(live::Args),
    /// On this host: ten files over calls in each context that is a thread; as root
    Transfers(live::transfers::Args),
    /// In virtual time: which reservations serve the modem; the same on every machine
    Map(map::Args),
}

/// The reason why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The live part failed.
    #[error(transparent)]
    Live(#[from] live::Error),
    /// The part in virtual time failed.
    #[error(transparent)]
    Map(#[from] map::Error),
}

impl From<Error> for Failure {
    /// Distinguishes wrong arguments from what this host cannot do.
    fn from(error: Error) -> Self {
        match error {
            Error::Live(live::Error::Trace(why)) => refused(why),
            Error::Live(live::Error::NoSuchContext { .. }) => Self::bad_input(error),
            Error::Live(_) | Error::Map(map::Error::Write { .. }) => Self::cannot_here(error),
            Error::Map(_) => Self::bad_input(error),
        }
    }
}

/// Runs a part of the study and prints its results.
pub fn run(command: &Command) -> Result<(), Error> {
    match command {
        Command::Live(args) => live::main(args)?,
        Command::Transfers(args) => live::transfers::main(args)?,
        Command::Map(args) => map::main(args)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io;

    use punctual_model::Duration;

    use super::*;

    #[test]
    fn an_unwritable_file_is_no_fault_of_the_input() {
        let why = io::Error::from(io::ErrorKind::PermissionDenied);
        let failure = |error: map::Error| Failure::from(Error::from(error));
        let written = failure(map::Error::Write { path: "page.html".into(), why });
        assert!(matches!(written, Failure::CannotHere(_)), "{written:?}");
        let (shortest, longest) = (Duration::from_millis(1), Duration::from_micros(500));
        let empty = failure(map::Error::Empty { shortest, longest, step: longest });
        assert!(matches!(empty, Failure::BadInput(_)), "{empty:?}");
    }
}
