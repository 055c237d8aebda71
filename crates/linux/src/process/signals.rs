//! Signals taken one at a time by a thread that waits for them, instead of by handlers.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal};
use thiserror::Error;

/// The signals that ask a program to end, by person, terminal or service manager.
const ENDING: [libc::c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// Why signals cannot be waited for.
#[derive(Debug, Error)]
#[error("the signals cannot be blocked or waited for: {0}")]
pub struct SignalError(io::Error);

/// While this lives, SIGHUP, SIGINT, SIGQUIT, SIGTERM and SIGCHLD do not interrupt the calling
/// thread but wait until it asks for them.
///
/// Make it before other threads exist: they would still be interrupted.
#[must_use = "dropping it unblocks the signals"]
pub struct Blocked {
    before: libc::sigset_t,
    blocked: libc::sigset_t,
}

/// A signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caught {
    /// A child has ended, stopped or gone on.
    Child,
    /// Someone asks us to end.
    End {
        /// With which signal.
        signal: Signal,
        /// It came from the terminal, which sends it to our whole process group: so our child
        /// has it too.
        from_terminal: bool,
    },
}

impl Blocked {
    /// Blocks them (pthread_sigmask(3)).
    pub fn new() -> Result<Self, SignalError> {
        let mut set = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: sigemptyset initialises `set`, sigaddset is given that and valid numbers, and
        // pthread_sigmask reads it and initialises `before`, as its result confirms.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in ENDING.into_iter().chain([libc::SIGCHLD]) {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            match libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr()) {
                0 => Ok(Self { before: before.assume_init(), blocked: set.assume_init() }),
                errno => Err(SignalError(io::Error::from_raw_os_error(errno))),
            }
        }
    }

    /// A child gets the mask that we had: it is inherited over exec.
    pub fn unblock_on_exec(&self, command: &mut Command) {
        let before = self.before;
        // SAFETY: the closure makes one async-signal-safe call, with an initialised set.
        unsafe {
            command.pre_exec(move || {
                match libc::pthread_sigmask(
                    libc::SIG_SETMASK,
                    &raw const before,
                    std::ptr::null_mut(),
                ) {
                    0 => Ok(()),
                    errno => Err(io::Error::from_raw_os_error(errno)),
                }
            });
        }
    }

    /// Waits for the next one (sigwaitinfo(2)).
    pub fn wait(&self) -> Result<Caught, SignalError> {
        loop {
            let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
            // SAFETY: `blocked` is initialised, and `info` is valid for writes.
            let signal = unsafe { libc::sigwaitinfo(&raw const self.blocked, info.as_mut_ptr()) };
            if signal == libc::SIGCHLD {
                return Ok(Caught::Child);
            }
            if let Some(named) = Signal::from_named_raw(signal) {
                // SAFETY: a positive result means that the kernel has filled `info`.
                let code = unsafe { info.assume_init() }.si_code;
                // SI_KERNEL: the terminal driver; kill(2) and its kin have codes ≤ 0.
                return Ok(Caught::End { signal: named, from_terminal: code > 0 });
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(SignalError(error));
            }
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: `before` is the initialised mask that this thread had.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut())
        };
    }
}

/// Sends `signal` to a child that has not been reaped: so its id is still its own.
pub fn send(child: &Child, signal: Signal) -> io::Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("a child's id is positive"))?;
    Ok(rustix::process::kill_process(pid, signal)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_wait_to_be_asked_for_and_children_do_not_inherit_the_mask() {
        std::thread::spawn(|| {
            let blocked = Blocked::new().expect("blocks");
            // To this thread alone: the test's other threads do not block it.
            // SAFETY: raises a signal that this thread blocks.
            unsafe { libc::raise(libc::SIGTERM) };
            let caught = blocked.wait().expect("waits");
            assert_eq!(caught, Caught::End { signal: Signal::TERM, from_terminal: false });

            let mut command = Command::new("sleep");
            blocked.unblock_on_exec(command.arg("60"));
            let mut child = command.spawn().expect("sleep is there");
            send(&child, Signal::TERM).expect("our child");
            let status = child.wait().expect("our child");
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
        })
        .join()
        .expect("no panic");
    }
}
