//! Why a program was not started: the sentence and the exit code.

use std::io::{self, ErrorKind};

use punctual_broker::client;
use punctual_broker::client::RequestError;
use punctual_linux::host;
use punctual_linux::process::SpawnError;
use punctual_linux::sched::SchedError;
use punctual_model::reservation::Reservation;
use punctual_runtime::reservation::{KernelOffer, Refused, StartError};
use thiserror::Error;

use super::say;
use crate::exit::{Exit, Failure, Outcome};

/// The shells' codes (POSIX, Shell Command Language, 2.8.2).
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Why.
#[derive(Debug, Error)]
pub(super) enum NotStarted {
    /// It does not fit; the sentence has what would.
    #[error("{0}")]
    Refused(String),
    /// It is asked for in a way that nothing could serve.
    #[error("{0}")]
    BadInput(String),
    /// Not on this host.
    #[error("{0}")]
    CannotHere(String),
    /// The program itself.
    #[error("cannot run \"{program}\": {error}")]
    Program {
        /// As it was written.
        program: String,
        /// What execve(2) said.
        error: io::Error,
    },
}

impl NotStarted {
    /// Says why, after `before`, and gives the exit code.
    pub(super) fn outcome(self, before: &str, after: &str) -> Outcome {
        let text = format!("{before}{self}{after}");
        match self {
            Self::BadInput(_) => Err(Failure::BadInput(text)),
            Self::CannotHere(_) => Err(Failure::CannotHere(text)),
            Self::Refused(_) => {
                say(&format!("punctual: {text}"));
                Ok(Exit::Refused)
            }
            Self::Program { error, .. } => {
                say(&format!("punctual: {text}"));
                let not_found =
                    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
                Ok(Exit::OfProgram(if not_found { NOT_FOUND } else { NOT_EXECUTABLE }))
            }
        }
    }

    /// The kernel's reservation.
    pub(super) fn by_kernel(error: SpawnError, asked: Reservation, program: String) -> Self {
        match error {
            SpawnError::Program(error) => Self::Program { program, error },
            SpawnError::Reservation(refused @ SchedError::NoBandwidth { .. }) => {
                Self::Refused(format!("{refused}; {}", counter_offer(asked)))
            }
            SpawnError::Reservation(refused) if refused.is_privilege() => {
                Self::CannotHere(refused.to_string())
            }
            SpawnError::Reservation(refused @ (SchedError::CannotFork | SchedError::Failed(_))) => {
                Self::CannotHere(refused.to_string())
            }
            // A limit of the kernel: no host's state would make this reservation acceptable.
            SpawnError::Reservation(refused) => Self::BadInput(refused.to_string()),
        }
    }

    /// The broker's. What it says names the test, the numbers, and what it would grant.
    pub(super) fn by_broker(error: client::SpawnError, program: String) -> Self {
        match error {
            client::SpawnError::Program(error) => Self::Program { program, error },
            client::SpawnError::Request(RequestError::Refused(refused)) => {
                Self::Refused(format!("the broker: {refused}"))
            }
            client::SpawnError::Request(other) => Self::CannotHere(format!("the broker: {other}")),
        }
    }

    /// The timetable's.
    pub(super) fn by_timetable(refused: Refused, program: String) -> Self {
        match refused {
            Refused::DoesNotFit { .. } | Refused::NoRoom { .. } | Refused::TooMany { .. } => {
                Self::Refused(refused.to_string())
            }
            Refused::Start(StartError::Taken { .. }) => Self::Refused(format!(
                "{refused}; or have the kernel hold the first thread (--backend kernel)"
            )),
            Refused::Io(error) if is_about_program(&error) => Self::Program { program, error },
            other => Self::CannotHere(other.to_string()),
        }
    }
}

/// Of the errors that `spawn` gives, those that execve(2) alone has.
fn is_about_program(error: &io::Error) -> bool {
    // ENOEXEC and ELIBBAD have no kind of their own.
    let by_number = matches!(error.raw_os_error(), Some(8 | 80));
    by_number
        || matches!(
            error.kind(),
            ErrorKind::NotFound
                | ErrorKind::PermissionDenied
                | ErrorKind::NotADirectory
                | ErrorKind::IsADirectory
                | ErrorKind::ArgumentListTooLong
                | ErrorKind::ExecutableFileBusy
                | ErrorKind::InvalidFilename
        )
}

/// What the kernel would take now.
fn counter_offer(asked: Reservation) -> String {
    let left = host::bandwidth_left().map_or_else(
        |_| "what is left cannot be measured".to_owned(),
        |left| {
            let percent = left.left_ppm as f64 / 10_000.0;
            format!("left on all CPUs together: {percent:.1} % of a CPU (measured by trying)")
        },
    );
    format!("{left}; {}", KernelOffer::instead_of(asked))
}
