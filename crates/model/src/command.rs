//! Programs that a contract starts, and their reservations.

use alloc::string::String;
use alloc::vec::Vec;

use thiserror::Error;

use crate::reservation::{BudgetRange, Enforcement};
use crate::units::Bytes;

/// The mechanism that executes a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// The kernel's SCHED_DEADLINE (sched(7)), a hard constant bandwidth server: for one thread,
    /// exact to a tick.
    Kernel,
    /// A timetable that Punctual's dispatcher executes, X in every window of length Y: for whole
    /// processes, exact to a timer.
    Timetable,
    /// A deferrable server that Punctual runs: up to X in each period of length Y, whenever the
    /// program wakes, and as an ordinary program beyond that. For whole processes.
    Server,
}

impl Backend {
    /// All back ends with their names in a contract.
    pub const NAMES: [(&'static str, Self); 3] =
        [("kernel", Self::Kernel), ("timetable", Self::Timetable), ("server", Self::Server)];

    /// Returns the name in a contract.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Timetable => "timetable",
            Self::Server => "server",
        }
    }
}

/// A program as it was declared, unchecked. [`Command::new`] validates it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSpec {
    /// The command's name.
    pub name: String,
    /// The program, then its arguments.
    pub run: Vec<String>,
    /// The working directory; `None`: that of Punctual.
    pub directory: Option<String>,
    /// The variables added to Punctual's own environment.
    pub environment: Vec<(String, String)>,
    /// The reservation under which it runs; `None`: it runs as an ordinary program.
    pub held: Option<Holding>,
    /// The position of the channel that carries its datagrams, among the channels of the contract
    /// that have a delay bound; `None`: no channel.
    pub channel: Option<usize>,
}

/// The reservation of a program and the way in which it is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The position of the reservation in its contract.
    pub reservation: usize,
    /// The right to CPU time outside its budget.
    pub enforcement: Enforcement,
    /// The back end to use; `None`: a server or a timetable, as admission finds.
    pub backend: Option<Backend>,
    /// The only CPU on which it runs, in the kernel's numbering; `None`: any.
    pub cpu: Option<u16>,
    /// The budgets between which its server follows its use while it runs; `None`: the budget stays.
    pub adapt: Option<BudgetRange>,
    /// The memory that it keeps, with all processes that it starts; `None`: nothing is promised.
    pub memory: Option<Bytes>,
}

/// A program that can be started.
///
/// Guaranteed: there is a program, not empty; no argument, directory or environment entry has a
/// zero byte; names in the environment are not empty and have no `=` (execve(2), environ(7)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command(CommandSpec);

/// The rule that a [`CommandSpec`] breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    /// There is no program.
    #[error("there is no program; write the program and its arguments: run = [\"sleep\", \"1\"]")]
    NoProgram,
    /// There is a zero byte, which would end a C string.
    #[error("{what} has a zero byte, which no argument of a program can have")]
    ZeroByte {
        /// The part that has it.
        what: &'static str,
    },
    /// The name of an environment variable is empty or has a `=`.
    #[error("\"{name}\" cannot be the name of an environment variable: it is empty or has \"=\"")]
    BadVariable {
        /// The name given.
        name: String,
    },
}

impl Command {
    /// Validates `spec`.
    pub fn new(spec: CommandSpec) -> Result<Self, CommandError> {
        if spec.run.first().is_none_or(String::is_empty) {
            return Err(CommandError::NoProgram);
        }
        let zero_in = |text: &String| text.contains('\0');
        if spec.run.iter().any(zero_in) {
            return Err(CommandError::ZeroByte { what: "an argument" });
        }
        if spec.directory.as_ref().is_some_and(zero_in) {
            return Err(CommandError::ZeroByte { what: "the directory" });
        }
        for (name, value) in &spec.environment {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(CommandError::BadVariable { name: name.replace('\0', "\u{fffd}") });
            }
            if zero_in(value) {
                return Err(CommandError::ZeroByte { what: "a value in the environment" });
            }
        }
        Ok(Self(spec))
    }

    /// Returns the command's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the program.
    pub fn program(&self) -> &str {
        // Validation made sure that there is one.
        self.0.run.first().map_or("", String::as_str)
    }

    /// Returns the program's arguments.
    pub fn arguments(&self) -> &[String] {
        self.0.run.get(1..).unwrap_or_default()
    }

    /// Returns the working directory; `None`: that of Punctual.
    pub fn directory(&self) -> Option<&str> {
        self.0.directory.as_deref()
    }

    /// Returns the variables added to Punctual's own environment, in the order of their names.
    pub fn environment(&self) -> &[(String, String)] {
        &self.0.environment
    }

    /// Returns the reservation under which it runs; `None`: it runs as an ordinary program.
    pub fn held(&self) -> Option<Holding> {
        self.0.held
    }

    /// Returns the same program under the reservation `held`.
    #[must_use]
    pub fn under(&self, held: Option<Holding>) -> Self {
        Self(CommandSpec { held, ..self.0.clone() })
    }

    /// Returns the position of the channel that carries its datagrams, among the channels of the
    /// contract that have a delay bound; `None`: no channel.
    pub fn channel(&self) -> Option<usize> {
        self.0.channel
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn spec(run: &[&str]) -> CommandSpec {
        CommandSpec {
            name: String::from("player"),
            run: run.iter().map(|&word| String::from(word)).collect(),
            directory: None,
            environment: vec![],
            held: None,
            channel: None,
        }
    }

    #[test]
    fn a_program_and_its_arguments_are_kept_apart() {
        let command = Command::new(spec(&["sleep", "1"])).expect("valid");
        assert_eq!((command.program(), command.arguments()), ("sleep", &[String::from("1")][..]));
    }

    #[test]
    fn each_rule_is_held() {
        assert_eq!(Command::new(spec(&[])), Err(CommandError::NoProgram));
        assert_eq!(Command::new(spec(&["", "1"])), Err(CommandError::NoProgram));
        let zero = Command::new(spec(&["sleep", "1\0"]));
        assert_eq!(zero, Err(CommandError::ZeroByte { what: "an argument" }));
        let directory = CommandSpec { directory: Some("\0".into()), ..spec(&["a"]) };
        assert_eq!(Command::new(directory), Err(CommandError::ZeroByte { what: "the directory" }));
        for (name, value, refused) in [
            ("", "1", CommandError::BadVariable { name: "".into() }),
            ("A=B", "1", CommandError::BadVariable { name: "A=B".into() }),
            ("A", "\0", CommandError::ZeroByte { what: "a value in the environment" }),
        ] {
            let environment = vec![(name.into(), value.into())];
            assert_eq!(Command::new(CommandSpec { environment, ..spec(&["a"]) }), Err(refused));
        }
    }
}
