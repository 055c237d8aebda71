//! Signals that a thread waits for and takes one at a time, instead of by handlers.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use punctual_model::Instant;
use rustix::process::{Pid, Signal};
use thiserror::Error;

use crate::clock;

/// The signals that a program passes on to the programs it runs: those by which a person, the
/// terminal or a service manager asks a program to end, those that notify programs, and SIGCONT,
/// which continues us whether it is blocked or not.
const PASSED_ON: [libc::c_int; 8] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
    libc::SIGCONT,
];

/// The reason signals cannot be waited for.
#[derive(Debug, Error)]
#[error("the signals cannot be blocked or waited for: {0}")]
pub struct SignalError(io::Error);

/// Blocks SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP and SIGCHLD while
/// this lives: they do not interrupt the calling thread but wait until it takes them. SIGCONT
/// continues us at once, and waits as well.
///
/// Make it before other threads exist: they would still be interrupted.
#[must_use = "dropping it unblocks the signals"]
pub struct Blocked {
    before: libc::sigset_t,
    blocked: libc::sigset_t,
}

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caught {
    /// A child has ended, stopped or continued.
    Child,
    /// A request to end, or a notification.
    Sent {
        /// The signal.
        signal: Signal,
        /// The signal came from the terminal, which sends it to our whole process group, so our
        /// child got it, too.
        from_terminal: bool,
    },
    /// A request to stop until SIGCONT (SIGTSTP): see [`Blocked::stop`].
    Stop {
        /// As above.
        from_terminal: bool,
    },
}

impl Blocked {
    /// Blocks the signals (pthread_sigmask(3)).
    pub fn new() -> Result<Self, SignalError> {
        let mut set = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: sigemptyset initialises `set`, sigaddset gets that and valid numbers, and
        // pthread_sigmask reads it and initialises `before`, as its result confirms.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in PASSED_ON.into_iter().chain([libc::SIGTSTP, libc::SIGCHLD]) {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            match libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr()) {
                0 => Ok(Self { before: before.assume_init(), blocked: set.assume_init() }),
                errno => Err(SignalError(io::Error::from_raw_os_error(errno))),
            }
        }
    }

    /// Restores in the child the mask that this thread had before: a mask is inherited over exec.
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

    /// Waits for the next signal (sigwaitinfo(2)).
    pub fn wait(&self) -> Result<Caught, SignalError> {
        loop {
            if let Some(caught) = self.next(None)? {
                return Ok(caught);
            }
        }
    }

    /// Waits for the next signal; returns `None` if none has come by `until` (CLOCK_MONOTONIC).
    pub fn wait_until(&self, until: Instant) -> Result<Option<Caught>, SignalError> {
        loop {
            let left = until.saturating_since(clock::now()).as_nanos();
            let caught = self.next(Some(libc::timespec {
                // 584 years take 34 bits, which a time_t has.
                tv_sec: (left / 1_000_000_000) as libc::time_t,
                tv_nsec: (left % 1_000_000_000) as libc::c_long,
            }))?;
            if caught.is_some() || clock::now() >= until {
                return Ok(caught);
            }
        }
    }

    /// Waits once (sigtimedwait(2)); returns `None` if interrupted, or if the time is over.
    fn next(&self, timeout: Option<libc::timespec>) -> Result<Option<Caught>, SignalError> {
        let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: `blocked` is initialised, `info` is valid for writes, and `timeout` is valid for
        // reads or null, which makes the kernel wait without end.
        let signal =
            unsafe { libc::sigtimedwait(&raw const self.blocked, info.as_mut_ptr(), timeout) };
        if signal == -1 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => Ok(None),
                _ => Err(SignalError(error)),
            };
        }
        // SAFETY: a positive result means that the kernel has filled `info`.
        let code = unsafe { info.assume_init() }.si_code;
        // SI_KERNEL comes from the terminal driver; kill(2) and similar calls have codes ≤ 0.
        let from_terminal = code > 0;
        Ok(match (signal, Signal::from_named_raw(signal)) {
            (libc::SIGCHLD, _) => Some(Caught::Child),
            (libc::SIGTSTP, _) => Some(Caught::Stop { from_terminal }),
            (_, signal) => signal.map(|signal| Caught::Sent { signal, from_terminal }),
        })
    }

    /// Stops the whole process as SIGTSTP does until SIGCONT comes, which the caller can then wait
    /// for. In an orphaned process group, which no shell could continue, the kernel does nothing
    /// (setpgid(2)).
    pub fn stop(&self) -> Result<(), SignalError> {
        let mut only = MaybeUninit::uninit();
        // SAFETY: sigemptyset initialises `only`, and sigaddset gets that and a valid number. The
        // signal is raised for this thread, which blocks it. Unblocking it stops us, and when that
        // call returns we have been continued. Nothing is written back.
        let failed = unsafe {
            libc::sigemptyset(only.as_mut_ptr());
            libc::sigaddset(only.as_mut_ptr(), libc::SIGTSTP);
            libc::raise(libc::SIGTSTP);
            let none = std::ptr::null_mut();
            let lifted = libc::pthread_sigmask(libc::SIG_UNBLOCK, only.as_ptr(), none);
            let back = libc::pthread_sigmask(libc::SIG_BLOCK, only.as_ptr(), none);
            if lifted == 0 { back } else { lifted }
        };
        match failed {
            0 => Ok(()),
            errno => Err(SignalError(io::Error::from_raw_os_error(errno))),
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: `before` is this thread's former mask, initialised by pthread_sigmask.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut())
        };
    }
}

/// Lets the child receive all signals, whatever this thread blocks: a mask is inherited over exec.
pub fn unblock_all_on_exec(command: &mut Command) {
    let in_child = || {
        let mut none = MaybeUninit::uninit();
        // SAFETY: sigemptyset initialises `none`, and pthread_sigmask reads it and writes nothing
        // back. Both are async-signal-safe.
        let failed = unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
        };
        if failed == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(failed)) }
    };
    // SAFETY: the closure makes two async-signal-safe calls and accesses nothing else.
    unsafe { command.pre_exec(in_child) };
}

/// Sends `signal` to a child that has not been reaped, so that its id is still its own.
pub fn send(child: &Child, signal: Signal) -> io::Result<()> {
    send_to(i32::try_from(child.id()).map_err(io::Error::other)?, signal)
}

/// Sends `signal` to the process `pid`. Unless it is our own child, it may have ended and another
/// process may have its id, so pass only an id that was read a moment ago.
pub fn send_to(pid: i32, signal: Signal) -> io::Result<()> {
    // Zero and below would mean groups of processes (kill(2)).
    let pid = Some(pid).filter(|pid| *pid > 0).and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("the id of a process is positive"))?;
    Ok(rustix::process::kill_process(pid, signal)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_wait_to_be_taken_and_children_do_not_inherit_the_mask() {
        std::thread::spawn(|| {
            let blocked = Blocked::new().expect("blocks");
            // Raised for this thread alone: the test's other threads do not block it.
            // SAFETY: raises a signal that this thread blocks.
            unsafe { libc::raise(libc::SIGTERM) };
            let caught = blocked.wait().expect("waits");
            assert_eq!(caught, Caught::Sent { signal: Signal::TERM, from_terminal: false });

            let soon = clock::now() + punctual_model::Duration::from_millis(1);
            assert_eq!(blocked.wait_until(soon).expect("waits"), None);
            // SAFETY: raises a signal that this thread blocks.
            unsafe { libc::raise(libc::SIGTSTP) };
            let far = clock::now() + punctual_model::Duration::from_secs(600);
            let caught = blocked.wait_until(far).expect("waits");
            assert_eq!(caught, Some(Caught::Stop { from_terminal: false }));

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
