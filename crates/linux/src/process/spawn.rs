//! The steps of a child between fork and exec: it enters its reservation or its group.
//!
//! Only async-signal-safe calls may be made there (fork(2)): no allocation, no lock. Everything is
//! prepared before the fork. An errno goes back through a socket of our own, because the error of
//! `spawn` alone would not distinguish a refused reservation from a refused program.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use punctual_model::reservation::Reservation;
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::thread::CpuSet;
use thiserror::Error;

use crate::cgroup::Group;
use crate::host::KernelLimits;
use crate::sched::{Class, LINGER, LINGER_PAUSE, SchedAttr, SchedError};
use crate::{clock, memory, sched};

/// Makes the kernel kill the child as soon as the thread that spawns it ends, however that ends
/// (PR_SET_PDEATHSIG with SIGKILL, prctl(2)).
///
/// Spawn from a thread that outlives the child, such as the main thread. The child's own children
/// do not inherit the setting, and it is cleared when the child executes a set-user-id program.
pub fn die_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    let in_child = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // A parent that died before the call sends no signal, so check after the call.
        if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(Errno::SRCH.into()) }
    };
    // SAFETY: `in_child` makes two system calls (prctl, getppid) and accesses nothing else.
    unsafe { command.pre_exec(in_child) };
}

/// Lets the kernel use huge pages for the child as it would have for this process before
/// [`avoid_huge_pages`](crate::memory::avoid_huge_pages).
pub fn allow_huge_pages_on_exec(command: &mut Command) {
    let in_child = || {
        memory::allow_huge_pages();
        Ok(())
    };
    // SAFETY: `in_child` loads an atomic and makes at most one system call (prctl).
    unsafe { command.pre_exec(in_child) };
}

/// The reason a program could not be started under a reservation.
#[derive(Debug, Error)]
pub enum SpawnError {
    /// The reservation was refused.
    #[error(transparent)]
    Reservation(#[from] SchedError),
    /// The program could not be executed, or no process could be made.
    #[error("{0}")]
    Program(io::Error),
}

/// The parent's end, which explains an error of `spawn`.
#[derive(Debug)]
pub struct ReserveOnExec {
    reservation: Reservation,
    from_child: UnixStream,
}

impl ReserveOnExec {
    /// Explains the error that `spawn` returned.
    pub fn explain(mut self, error: io::Error) -> SpawnError {
        let mut errno = [0; 4];
        // Non-blocking: empty unless the child wrote why it has no reservation.
        match self.from_child.read_exact(&mut errno) {
            Ok(()) => {
                let errno = Errno::from_raw_os_error(i32::from_ne_bytes(errno));
                SpawnError::Reservation(sched::of_child(self.reservation, errno))
            }
            Err(_) => SpawnError::Program(error),
        }
    }
}

/// Makes the child put itself under SCHED_DEADLINE before it executes the program, with
/// reset_on_fork: the program may make threads and processes, and they start under SCHED_OTHER.
///
/// While the kernel returns EBUSY the child retries for up to [`LINGER`]; `spawn` waits for it. A
/// reservation that breaks the kernel's limits is refused here. `command` is good for one `spawn`;
/// pass its error to [`ReserveOnExec::explain`].
pub fn reserve_on_exec(
    command: &mut Command,
    reservation: Reservation,
) -> Result<ReserveOnExec, SpawnError> {
    KernelLimits::read().check(reservation)?;
    let attr = SchedAttr::of(Class::Deadline { reservation, reset_on_fork: true })?;
    // Close-on-exec, so the program never sees it.
    let (from_child, mut to_parent) = UnixStream::pair().map_err(SpawnError::Program)?;
    from_child.set_nonblocking(true).map_err(SpawnError::Program)?;
    let in_child = move || {
        let until = clock::now() + LINGER;
        loop {
            match sched::set_current(&attr) {
                Ok(()) => return Ok(()),
                Err(Errno::BUSY) if clock::now() < until => clock::sleep(LINGER_PAUSE),
                Err(errno) => {
                    // If this write fails, too, `spawn` still returns the errno, only less clearly.
                    let _ = to_parent.write_all(&errno.raw_os_error().to_ne_bytes());
                    return Err(errno.into());
                }
            }
        }
    };
    // SAFETY: `in_child` calls sched_setattr, clock_gettime, clock_nanosleep and write, all plain
    // system calls (the clock through the vDSO) or async-signal-safe; an `io::Error` made from an
    // errno allocates nothing.
    unsafe { command.pre_exec(in_child) };
    Ok(ReserveOnExec { reservation, from_child })
}

/// Calls [`reserve_on_exec`] and `spawn`, and explains the error.
pub fn spawn_reserved(
    command: &mut Command,
    reservation: Reservation,
) -> Result<Child, SpawnError> {
    let explainer = reserve_on_exec(command, reservation)?;
    command.spawn().map_err(|error| explainer.explain(error))
}

/// Makes the child restrict itself to `cpu`, move itself into `group`, and take SCHED_FIFO at
/// `priority` if there is one, before it executes the program. So no instruction of the program,
/// and nothing that it starts, is ever outside. In a frozen group the child stops there, and
/// `spawn` waits.
///
/// # Errors
/// If the group's file cannot be opened. An error in the child is returned by `spawn`.
pub fn join_on_exec(
    command: &mut Command,
    group: &Group,
    cpu: usize,
    priority: Option<u8>,
) -> io::Result<()> {
    // Close-on-exec, so the program never sees it.
    let members = File::options().write(true).open(group.path().join("cgroup.procs"))?;
    let mut cpus = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    cpus.set(cpu);
    let in_child = move || {
        rustix::thread::sched_setaffinity(None, &cpus)?;
        // "0" means the writer (cgroups(7)).
        rustix::io::write(&members, b"0")?;
        if let Some(priority) = priority {
            super::raise(crate::thread::current(), priority)?;
        }
        Ok(())
    };
    // SAFETY: `in_child` makes four system calls (sched_setaffinity, write, gettid,
    // sched_setscheduler) and allocates nothing; neither does an error made from an errno.
    unsafe { command.pre_exec(in_child) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    fn reservation() -> Reservation {
        "2ms/100ms".parse().expect("valid")
    }

    #[test]
    fn a_program_runs_under_its_reservation_and_its_children_do_not() {
        // Field 41 of /proc/PID/stat is the policy (proc_pid_stat(5)): 6 is SCHED_DEADLINE.
        let script = "read s < /proc/$$/stat; set -- ${s#*) }; shift 38; echo $1; \
                      cut -d' ' -f41 /proc/self/stat";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped());
        die_with_parent(&mut command);
        match spawn_reserved(&mut command, reservation()) {
            Ok(child) => {
                let output = child.wait_with_output().expect("waits");
                assert_eq!(String::from_utf8_lossy(&output.stdout), "6\n0\n");
            }
            Err(SpawnError::Reservation(refused)) if refused.is_privilege() => {
                println!("skipped: {refused}");
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_not_blamed_on_the_reservation() {
        match spawn_reserved(&mut Command::new("/nonexistent"), reservation()) {
            Err(SpawnError::Program(error)) => assert_eq!(error.kind(), io::ErrorKind::NotFound),
            Err(SpawnError::Reservation(refused)) if refused.is_privilege() => {
                println!("skipped: {refused}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_reservation_under_the_kernels_limits_is_refused_before_anything_runs() {
        let tiny = "10ns/1ms".parse().expect("well-formed");
        let refused = spawn_reserved(&mut Command::new("true"), tiny);
        assert!(matches!(refused, Err(SpawnError::Reservation(SchedError::BudgetTooShort { .. }))));
    }
}
