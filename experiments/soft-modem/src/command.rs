//! The study as subcommands.

use clap::Subcommand;
use punctual_observe::RecordError;

use crate::{live, map};

/// Which part of the study.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// On this host: each context, its services, and what it does to others; as root
    Live(live::Args),
    /// On this host: ten files over calls in each context that is a thread; as root
    Transfers(live::transfers::Args),
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

impl Error {
    /// Whether what was asked for is at fault, rather than this host.
    pub fn is_of_input(&self) -> bool {
        match self {
            Self::Live(why) => matches!(
                why,
                live::Error::NoSuchContext { .. } | live::Error::Trace(RecordError::IsThere { .. })
            ),
            Self::Map(why) => !matches!(why, map::Error::Write { .. }),
        }
    }
}

/// Runs it, and prints what came of it.
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
    fn what_cannot_be_written_is_no_fault_of_the_input() {
        let why = io::Error::from(io::ErrorKind::PermissionDenied);
        assert!(!Error::from(map::Error::Write { path: "page.html".into(), why }).is_of_input());
        let (shortest, longest) = (Duration::from_millis(1), Duration::from_micros(500));
        assert!(Error::from(map::Error::Empty { shortest, longest, step: longest }).is_of_input());
    }
}
