//! The end of a child, and its usage.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};

use punctual_model::time::{Instant, Service};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal,
};

use crate::clock;

/// A process's usage (getrusage(2)): of all its threads, and of the children it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The processor time of its first thread, which is the one that holds a reservation; from the
    /// scheduler's own account, to the nanosecond. `None` if /proc does not show it.
    pub first_thread: Option<Service>,
    /// The processor time in its own code and in the kernel on its behalf, to a microsecond.
    pub processor: Service,
    /// The number of times that it gave up the CPU: it slept or waited.
    pub voluntary_switches: u64,
    /// The number of times that it lost the CPU: it was preempted, or throttled when its budget
    /// ended.
    pub involuntary_switches: u64,
}

/// A child that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The exit status.
    pub status: ExitStatus,
    /// The resources it used.
    pub usage: Usage,
}

/// Returns the outcome of `child` if it has ended: then it is reaped, and must not be waited for
/// again. Never blocks (wait4(2), WNOHANG).
pub fn poll(child: &Child) -> io::Result<Option<Ended>> {
    let pid = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    // While the child is a zombie, its accounts can still be read, and its id is not reused.
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let id = Pid::from_child(child);
    let first_thread = match rustix::process::waitid(WaitId::Pid(id), ended)? {
        None => return Ok(None),
        Some(_) => fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat")).ok(),
    };
    let first_thread = first_thread.and_then(|text| exec_time(&text));
    let mut status = 0;
    // SAFETY: `rusage` is a structure of integers, for which all zeroes is a valid value.
    let mut rusage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `status` and `rusage` are valid for writes, distinct, and outlive the call.
    let result = unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut rusage) };
    match result {
        0 => Ok(None),
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(Some(Ended {
            status: ExitStatus::from_raw(status),
            usage: Usage { first_thread, ..usage(&rusage) },
        })),
    }
}

/// Returns true if `child`, which has not been reaped, is stopped (SIGSTOP, SIGTSTP) or has ended.
/// Never blocks.
pub fn is_stopped(child: &Child) -> io::Result<bool> {
    let rests = WaitIdOptions::STOPPED | WaitIdOptions::EXITED;
    let options = rests | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(rustix::process::waitid(WaitId::Pid(Pid::from_child(child)), options)?.is_some())
}

/// Waits until one of `children`, none of which has been reaped, has ended. Returns whether one had
/// by `until` (CLOCK_MONOTONIC); with `None` it waits without end (pidfd_open(2)). Reaps none.
pub fn wait_for_one<'a>(
    children: impl Iterator<Item = &'a Child>,
    until: Option<Instant>,
) -> io::Result<bool> {
    let handles = children.map(|child| Handle::of(child.id())).collect::<io::Result<Vec<_>>>()?;
    let mut watched: Vec<_> =
        handles.iter().map(|handle| PollFd::new(&handle.0, PollFlags::IN)).collect();
    loop {
        let left = until.map(|until| until.saturating_since(clock::now()).as_nanos());
        let left = left.map(|left| Timespec {
            // 584 years take 34 bits.
            tv_sec: (left / 1_000_000_000) as _,
            tv_nsec: (left % 1_000_000_000) as _,
        });
        match rustix::event::poll(&mut watched, left.as_ref()) {
            Ok(ended) => return Ok(ended > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A process that stays the same one, also after its id was given to another (pidfd_open(2)).
#[derive(Debug)]
pub struct Handle(OwnedFd);

impl Handle {
    /// Makes a handle of the process that has this id now: of a child, before it is reaped.
    pub fn of(pid: u32) -> io::Result<Self> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("the id of a process is positive"))?;
        Ok(Self(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Sends it a signal (pidfd_send_signal(2)).
    ///
    /// # Errors
    /// If it has ended and was reaped (ESRCH), or is another user's.
    pub fn send(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.0, signal)?)
    }
}

/// Parses the first number of schedstat: nanoseconds on a CPU.
fn exec_time(schedstat: &str) -> Option<Service> {
    schedstat.split_whitespace().next()?.parse().ok().map(Service::from_nanos)
}

fn usage(rusage: &libc::rusage) -> Usage {
    let service = |time: libc::timeval| {
        let micros = time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_usec.unsigned_abs();
        Service::from_micros(micros)
    };
    Usage {
        first_thread: None,
        processor: service(rusage.ru_utime) + service(rusage.ru_stime),
        voluntary_switches: rusage.ru_nvcsw.unsigned_abs(),
        involuntary_switches: rusage.ru_nivcsw.unsigned_abs(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::send;
    use punctual_model::time::Duration;
    use std::process::Command;

    #[test]
    fn a_stopped_child_differs_from_one_that_runs() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep is there");
        let becomes = |child: &Child, stopped: bool| {
            for _ in 0..20_000 {
                if is_stopped(child).expect("our child") == stopped {
                    return true;
                }
                clock::sleep(Duration::from_millis(1));
            }
            false
        };
        let mut seen = vec![is_stopped(&child).expect("our child")];
        for (signal, stopped) in [(Signal::STOP, true), (Signal::CONT, false)] {
            send(&child, signal).expect("our child");
            seen.push(becomes(&child, stopped));
        }
        send(&child, Signal::KILL).expect("our child");
        seen.push(becomes(&child, true));
        child.wait().expect("our child");
        assert_eq!(seen, [false, true, true, true]);
    }

    #[test]
    fn the_end_of_a_child_is_waited_for_and_a_handle_outlives_it() {
        let start = || Command::new("sleep").arg("60").spawn().expect("sleep is there");
        let (mut one, mut other) = (start(), start());
        let handle = Handle::of(one.id()).expect("our child");
        let wait = |one: &Child, other: &Child, until| {
            wait_for_one([one, other].into_iter(), until).expect("our children")
        };
        assert!(!wait(&one, &other, Some(clock::now() + Duration::from_millis(1))));
        handle.send(Signal::TERM).expect("our child");
        assert!(wait(&one, &other, None));
        one.wait().expect("our child");
        let gone = handle.send(Signal::TERM).expect_err("reaped");
        assert_eq!(gone.raw_os_error(), Some(Errno::SRCH.raw_os_error()));
        other.kill().and_then(|()| other.wait()).expect("our child");
    }

    #[test]
    #[allow(clippy::zombie_processes, reason = "`poll` waits for it")]
    fn a_child_is_reaped_once_with_its_usage() {
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 7";
        let child = Command::new("sh").args(["-c", script]).spawn().expect("sh is there");
        let ended = loop {
            match poll(&child).expect("our child") {
                Some(ended) => break ended,
                None => clock::sleep(Duration::from_millis(1)),
            }
        };
        assert_eq!(ended.status.code(), Some(7));
        assert!(ended.usage.processor > Service::ZERO);
        assert!(ended.usage.first_thread > Some(Service::ZERO));
        assert!(poll(&child).is_err(), "reaped already");
    }
}
