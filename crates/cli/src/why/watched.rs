//! The program that is watched, from its start to its end.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::{Child, Command};

use punctual_linux::clock;
use punctual_linux::process::{self, Blocked, Signal, die_with_parent};
use punctual_model::Duration;

use crate::exit::Failure;

/// How long a program that is asked to end may take.
const GRACE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

/// A program of ours; it dies with us.
pub(crate) struct Program {
    child: Child,
    ended: bool,
}

impl Program {
    pub(crate) fn start(
        program: &OsStr,
        arguments: &[OsString],
        signals: &Blocked,
    ) -> Result<Self, Failure> {
        let mut command = Command::new(program);
        command.args(arguments);
        signals.unblock_on_exec(&mut command);
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

    /// Asks it to end if it has not, and kills it if it does not.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        if self.has_ended()? {
            return Ok(());
        }
        // Another user's (set-user-id) may not be told anything; it is waited for below.
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

/// Whether there is such a process (proc(5)).
pub(crate) fn is_there(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}/task")).exists()
}
