//! Defines the exit codes, which are the same for every program and subcommand.

use std::fmt::Display;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

pub use punctual::Failure;

use crate::hint::told;

/// The exit codes as `--help` lists them.
pub const HELP: &str = "Exit codes: 0 kept, 1 refused or broken promise, \
                               2 bad usage or bad contract, 3 this host cannot, \
                               4 not judgeable: something is missing.";

/// The outcome of a command that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The contract was admitted, the promises were kept, or the host is able.
    Kept,
    /// A contract was refused, or a promise was broken.
    Refused,
    /// This host cannot do it.
    CannotHere,
    /// The evidence that would decide is missing.
    NotJudgeable,
    /// The exit code of the program that was run.
    OfProgram(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Kept => 0,
            Exit::Refused => 1,
            Exit::CannotHere => 3,
            Exit::NotJudgeable => 4,
            Exit::OfProgram(code) => code,
        })
    }
}

/// Prints to standard error why a command could not do its work, and returns the exit code.
pub fn report(failure: &Failure) -> ExitCode {
    complain(told(failure.message()));
    ExitCode::from(match failure {
        Failure::BadInput(_) => 2,
        Failure::CannotHere(_) => 3,
        Failure::Refused(_) => 1,
    })
}

/// Prints the reason to standard error, after the name by which the program was called.
pub fn complain(why: impl Display) {
    let name = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&name).file_name().unwrap_or_default();
    // If standard error cannot be written to, there is nowhere left to report it.
    let _ = writeln!(anstream::stderr(), "{}: {why}", name.display());
}

/// The result of every subcommand.
pub type Outcome = Result<Exit, Failure>;
