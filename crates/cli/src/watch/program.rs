//! Starts a program to be watched.

use std::ffi::{OsStr, OsString};
use std::process::{Child, Command, ExitStatus, Stdio};

use punctual_linux::clock;
use punctual_linux::process::{Signal, die_with_parent, send};
use punctual_model::Duration;

use crate::exit::Failure;

/// The time it has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

/// A child process, which is ended when this is dropped.
pub(super) struct Program {
    child: Child,
}

impl Program {
    /// Starts the program without a terminal, because its output would disturb the view.
    pub(super) fn start(program: &OsStr, arguments: &[OsString]) -> Result<Self, Failure> {
        let mut command = Command::new(program);
        command.args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        die_with_parent(&mut command);
        command.spawn().map(|child| Self { child }).map_err(|error| {
            Failure::bad_input(format!("{}: cannot be started: {error}", program.display()))
        })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its exit status once it has ended.
    pub(super) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Sending fails if the program is set-user-id of another user.
        let _ = send(&self.child, Signal::TERM);
        let until = clock::now() + GRACE;
        while clock::now() < until {
            if self.has_ended().is_some() {
                return;
            }
            clock::sleep(LOOK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
