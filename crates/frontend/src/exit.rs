//! The exit codes, the same for every program and subcommand.

use std::fmt::Display;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

pub use punctual::Failure;

/// The codes as `--help` tells them.
pub const HELP: &str = "Exit codes: 0 kept, 1 refused or broken promise, \
                               2 bad usage or bad contract, 3 this host cannot, \
                               4 not judgeable: something is missing.";

/// How a command that ran to its end ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Admitted, kept, able.
    Kept,
    /// Refused, or a promise broken.
    Refused,
    /// This host cannot.
    CannotHere,
    /// What would tell is missing.
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

/// Says on standard error why a command could not do its work, and returns the exit code.
pub fn report(failure: &Failure) -> ExitCode {
    complain(failure);
    ExitCode::from(match failure {
        Failure::BadInput(_) => 2,
        Failure::CannotHere(_) => 3,
        Failure::Refused(_) => 1,
    })
}

/// Says why on standard error, after the name by which the program was called.
pub fn complain(why: impl Display) {
    let name = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&name).file_name().unwrap_or_default();
    // Where nobody reads standard error, there is nobody to be told.
    let _ = writeln!(anstream::stderr(), "{}: {why}", name.display());
}

/// What every subcommand returns.
pub type Outcome = Result<Exit, Failure>;
