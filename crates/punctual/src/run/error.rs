//! The errors of starting programs and of waiting for them.

use std::io::{self, ErrorKind};

use punctual_analysis::Refusal;
use punctual_client::RequestError;
use punctual_client::want::LONGEST;
use punctual_linux::bandwidth;
use punctual_linux::process::SpawnError;
use punctual_linux::sched::SchedError;
use punctual_model::reservation::Reservation;
use punctual_runtime::reservation::{KernelOffer, Refused, StartError, Unsuitable};
use serde::{Serialize, Serializer};

use crate::refusal::RefusalRecord;
use crate::{Failure, Remedy};

/// The error of preparing or running programs.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The contract has no command.
    #[error("the contract names no program to start; add a [[command]] (docs/contract.md)")]
    NoCommand,
    /// A command was named that the contract does not have.
    #[error("there is no command \"{name}\"; there is {}", quoted(known))]
    UnknownCommand {
        /// The name.
        name: String,
        /// The names of the contract's commands.
        known: Vec<String>,
    },
    /// The contract does not fit this host.
    #[error(transparent)]
    NotAdmitted(#[from] NotAdmitted),
    /// A program was not started.
    #[error("{}{why}{}", before(command.as_deref()), after(*others_ended))]
    NotStarted {
        /// The name of the program, if it has one.
        command: Option<String>,
        /// The reason.
        why: NotStarted,
        /// The number of other programs that ran already. They were ended.
        others_ended: usize,
    },
    /// Another operation failed on this host.
    #[error("{0}")]
    Failure(#[from] Failure),
}

/// The answer to a contract that does not fit this host.
#[derive(Debug, thiserror::Error)]
#[error("{refusal}")]
pub struct NotAdmitted {
    /// The test that decided, the numbers and what would fit.
    pub refusal: Box<Refusal>,
}

impl Serialize for NotAdmitted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Answer {
            admitted: bool,
            refusal: String,
        }
        Answer { admitted: false, refusal: self.refusal.to_string() }.serialize(serializer)
    }
}

/// Returns `"a", "b"`.
pub(super) fn quoted(names: &[impl std::fmt::Display]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
}

fn before(command: Option<&str>) -> String {
    command.map_or(String::new(), |name| format!("command \"{name}\": "))
}

fn after(others_ended: usize) -> String {
    match others_ended {
        0 => String::new(),
        _ => format!(" (of the others, {others_ended} ran already and were ended)"),
    }
}

impl From<NotStarted> for Error {
    fn from(why: NotStarted) -> Self {
        Self::NotStarted { command: None, why, others_ended: 0 }
    }
}

impl From<Error> for Failure {
    /// Keeps the message. A program that cannot be executed counts as bad input.
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Failure(failure) => failure,
            Error::NotAdmitted(answer) => Self::refused(&*answer.refusal),
            Error::NoCommand | Error::UnknownCommand { .. } => Self::bad_input(text),
            Error::NotStarted { why: NotStarted::Program { .. }, .. } => Self::bad_input(text),
            Error::NotStarted { why: NotStarted::Failure(why), .. } => why.reworded(text),
        }
    }
}

/// The reason that a program was not started.
#[derive(Debug, thiserror::Error)]
pub enum NotStarted {
    /// The request is refused, contradicts itself, or is not possible on this host.
    #[error("{0}")]
    Failure(#[from] Failure),
    /// The program itself cannot be executed.
    #[error("cannot run \"{program}\": {error}")]
    Program {
        /// The program as the user wrote it.
        program: String,
        /// The error of execve(2).
        error: io::Error,
    },
}

impl NotStarted {
    /// Converts the kernel's answer to a reservation.
    pub(super) fn by_kernel(error: SpawnError, asked: Reservation, program: String) -> Self {
        match error {
            SpawnError::Program(error) => Self::Program { program, error },
            SpawnError::Reservation(refused @ SchedError::NoBandwidth { .. }) => {
                let offer = KernelOffer::instead_of(asked);
                let why = format!("{refused}; {}; {offer}", left());
                Failure::refused(RefusalRecord::by_kernel(asked, offer, &why)).into()
            }
            SpawnError::Reservation(refused) if refused.is_privilege() => {
                Failure::cannot_here(refused).into()
            }
            SpawnError::Reservation(refused @ (SchedError::CannotFork | SchedError::Failed(_))) => {
                Failure::cannot_here(refused).into()
            }
            // This is a limit of the kernel: no other load on the host would make it acceptable.
            SpawnError::Reservation(refused) => Failure::bad_input(refused).into(),
        }
    }

    /// Converts the broker's answer, which names the test, the numbers and a counter-offer.
    pub(super) fn by_broker(
        error: punctual_client::SpawnError,
        asked: Reservation,
        program: String,
    ) -> Self {
        match error {
            punctual_client::SpawnError::Program(error) => Self::Program { program, error },
            punctual_client::SpawnError::Request(RequestError::Refused(refused)) => {
                Failure::refused(RefusalRecord::of_reservation(&refused, asked)).into()
            }
            punctual_client::SpawnError::Request(other) => {
                let said = format!("the broker: {other}");
                // No broker watches the use of so long a period.
                if asked.period() > LONGEST {
                    return Failure::bad_input(said).into();
                }
                Failure::cannot_here(said).into()
            }
        }
    }

    /// Converts the reason why no back end holds a program: this host cannot, or never so small a budget.
    pub(super) fn unsuitable(no: Unsuitable) -> Self {
        match no {
            Unsuitable::TooCoarse(coarse) => Failure::refused(coarse.to_string()).into(),
            other => Failure::cannot_here(other).into(),
        }
    }

    /// Converts the refusal of a timetable.
    pub(super) fn by_timetable(refused: Refused, program: String) -> Self {
        match refused {
            Refused::DoesNotFit { .. } | Refused::NoRoom { .. } | Refused::TooMany { .. } => {
                Failure::refused(&refused).into()
            }
            Refused::Unsuitable(no) => Self::unsuitable(no),
            Refused::Start(StartError::Taken { .. }) => {
                Failure::refused(format!("{refused}; or have the kernel hold the first thread"))
                    .with(Remedy::HoldByKernel)
                    .into()
            }
            Refused::Io(error) if is_about_program(&error) => Self::Program { program, error },
            other => Failure::cannot_here(other).into(),
        }
    }
}

/// Returns whether this error of `spawn` can only come from execve(2).
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

/// Says how much bandwidth the kernel has left now.
fn left() -> String {
    bandwidth::left().map_or_else(
        |_| "what is left cannot be measured".to_owned(),
        |left| {
            let percent = left.left_ppm as f64 / 10_000.0;
            format!("left on all CPUs together: {percent:.1} % of a CPU (measured by trying)")
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_command_and_keeps_its_kind_as_a_failure() {
        let why = |failure: Failure| Error::NotStarted {
            command: Some("a".into()),
            why: failure.into(),
            others_ended: 2,
        };
        let text = "command \"a\": no (of the others, 2 ran already and were ended)";
        for (failure, expected) in [
            (Failure::bad_input("no"), Failure::bad_input(text)),
            (Failure::cannot_here("no"), Failure::cannot_here(text)),
            (Failure::refused("no".to_owned()), Failure::refused(text.to_owned())),
        ] {
            assert_eq!(Failure::from(why(failure.clone())), expected);
            // The remedy is not lost on the way.
            let remedied = why(failure.with(Remedy::UseBroker));
            assert_eq!(Failure::from(remedied), expected.with(Remedy::UseBroker));
        }
        let program =
            NotStarted::Program { program: "x".into(), error: ErrorKind::NotFound.into() };
        let bad = Failure::from(Error::from(program));
        assert!(
            matches!(&bad, Failure::BadInput(why) if why.text().starts_with("cannot run \"x\": "))
        );
    }
}
