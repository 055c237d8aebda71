//! The exit codes, the same for every program and subcommand.

use std::fmt::Display;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

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

/// Why a command could not do its work: one or more sentences for a person, on standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Bad usage or a bad contract: exit 2.
    BadInput(String),
    /// This host cannot; the sentence says what to do about it: exit 3.
    CannotHere(String),
    /// What was asked about is refused: exit 1.
    Refused(String),
}

impl Failure {
    /// Makes a failure of the first kind from anything that reads as a sentence.
    pub fn bad_input(why: impl Display) -> Self {
        Self::BadInput(why.to_string())
    }

    /// Makes a failure of the second kind from anything that reads as a sentence.
    pub fn cannot_here(why: impl Display) -> Self {
        Self::CannotHere(why.to_string())
    }

    /// Says why on standard error and gives the exit code.
    pub fn report(&self) -> ExitCode {
        let (why, code) = match self {
            Self::BadInput(why) => (why, 2),
            Self::CannotHere(why) => (why, 3),
            Self::Refused(why) => (why, 1),
        };
        complain(why);
        ExitCode::from(code)
    }
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
