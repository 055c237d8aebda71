//! The program or process that [`crate::why`], [`crate::fit`] and [`crate::watch`] watch.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use punctual_linux::clock;
use punctual_linux::process::{self, Blocked, Signal, die_with_parent};
use punctual_model::Duration;

use crate::Failure;

/// The time that a program has to end after it is asked to.
const GRACE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

/// The program or process to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A program and its arguments. It is started for the observation, and ended after it.
    Program(Vec<OsString>),
    /// A running process, given by its id, with all processes that it starts.
    Process(u32),
}

impl Target {
    /// Starts the program, if the target is one. Returns the program and the id of the process to
    /// follow.
    pub(crate) fn start(&self, signals: &Blocked) -> Result<(Option<Program>, u32), Failure> {
        self.start_as(|command| signals.unblock_on_exec(command))
    }

    /// Starts the program like [`Self::start`], but with its input and output discarded, and with
    /// the signals as they are.
    pub(crate) fn start_in_background(&self) -> Result<(Option<Program>, u32), Failure> {
        self.start_as(|command| {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        })
    }

    fn start_as(
        &self,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<(Option<Program>, u32), Failure> {
        match self {
            Self::Process(pid) if is_there(*pid) => Ok((None, *pid)),
            Self::Process(pid) => Err(Failure::bad_input(format!("there is no process {pid}"))),
            Self::Program(words) => {
                let program = Program::start_as(words, prepare)?;
                let pid = program.id();
                Ok((Some(program), pid))
            }
        }
    }
}

/// The commands of `punctual` that enforce budgets. All others count as work, like any program.
const ENFORCERS: &[&str] = &["run", "serve"];

/// Returns this program, which enforces budgets if it is `punctual`, with its commands that do so.
/// `None` if its path is not known.
pub fn enforcer() -> Option<(PathBuf, &'static [&'static str])> {
    Some((std::env::current_exe().ok()?, ENFORCERS))
}

/// Returns the same for the program `punctual` at `path`, which may contain symbolic links.
pub(crate) fn enforcer_at(path: &Path) -> Option<(PathBuf, &'static [&'static str])> {
    Some((path.canonicalize().ok()?, ENFORCERS))
}

/// A child program. It dies with this process.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    ended: bool,
}

impl Program {
    pub(crate) fn start(words: &[OsString], signals: &Blocked) -> Result<Self, Failure> {
        Self::start_as(words, |command| signals.unblock_on_exec(command))
    }

    fn start_as(words: &[OsString], prepare: impl FnOnce(&mut Command)) -> Result<Self, Failure> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(Failure::bad_input("nothing to watch: no program"));
        };
        let mut command = Command::new(program);
        command.args(arguments);
        prepare(&mut command);
        die_with_parent(&mut command);
        command.spawn().map(|child| Self { child, ended: false }).map_err(|error| {
            Failure::bad_input(format!("{}: cannot be started: {error}", program.display()))
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn has_ended(&mut self) -> Result<bool, Failure> {
        if !self.ended {
            self.ended = process::poll(&self.child).map_err(waiting)?.is_some();
        }
        Ok(self.ended)
    }

    /// Asks the program to end if it has not, and kills it if it does not.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        if self.has_ended()? {
            return Ok(());
        }
        // A program of another user (set-user-id) cannot be signalled; it is waited for below.
        let _ = process::send(&self.child, Signal::TERM);
        let until = clock::now() + GRACE;
        while clock::now() < until {
            if self.has_ended()? {
                return Ok(());
            }
            clock::sleep(LOOK);
        }
        self.child.kill().and_then(|()| self.child.wait()).map(drop).map_err(waiting)
    }
}

fn waiting(error: io::Error) -> Failure {
    Failure::cannot_here(format!("cannot wait for the program: {error}"))
}

/// Returns whether the process exists (proc(5)).
fn is_there(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}/task")).exists()
}
