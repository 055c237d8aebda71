//! Putting a grant in force, and taking it back.

use std::fs;

use punctual_linux::sched::{self, Class, SchedError};
use punctual_linux::thread::Tid;
use punctual_model::{Duration, Reservation, Service, Upcall};
use punctual_runtime::ceiling::{CEILING, LOWEST, level_of};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use thiserror::Error;

use super::peer::{Process, start_of};
use crate::books::Order;
use crate::ledger::OldLimits;
use crate::want::{Want, What};

/// Below all upcalls.
pub const PRIORITY: u8 = LOWEST - 1;

/// Why a grant is not in force.
#[derive(Debug, Error)]
pub enum GiveError {
    /// The kernel refused the class.
    #[error(transparent)]
    Class(#[from] SchedError),
    /// The thread is not the peer's, or ended.
    #[error(
        "thread {thread} is no thread of process {pid}; give the kernel's id (gettid(2)) of one of your own"
    )]
    NotYours {
        /// The id that was given.
        thread: Tid,
        /// The peer.
        pid: i32,
    },
    /// A limit cannot be set.
    #[error("{limit} of process {pid} cannot be set: {errno}")]
    Limit {
        /// Which.
        limit: &'static str,
        /// Whose.
        pid: i32,
        /// Why.
        errno: Errno,
    },
    /// The process would not be stopped if it ran for ever.
    #[error(
        "process {pid} has a hard RLIMIT_RTTIME of {}, and SCHED_FIFO is given only with one of at \
         most {most}: set it (setrlimit(2)) and ask again", found(*.has)
    )]
    NoRunLimit {
        /// Whose.
        pid: i32,
        /// What it has.
        has: Option<Duration>,
        /// What it may have.
        most: Duration,
    },
    /// The thread cannot be pinned.
    #[error("thread {thread} cannot run on CPU {cpu}, where its upcalls were admitted: {errno}")]
    Pinned {
        /// Who.
        thread: Tid,
        /// Where to.
        cpu: usize,
        /// Why.
        errno: Errno,
    },
}

fn found(limit: Option<Duration>) -> String {
    limit.map_or_else(|| "none".into(), |limit| limit.to_string())
}

/// How grants are put in force on this host.
#[derive(Clone, Debug)]
pub struct Means {
    /// How upcall threads come to their priority.
    pub order: Order,
    /// Whether limits of others can be set.
    pub may_limit: bool,
    /// How long a SCHED_FIFO thread may run without sleeping.
    pub run_limit: Duration,
    /// The kernel's number of each CPU of the books.
    pub cpus: Vec<usize>,
}

impl Means {
    /// Puts `want` in force for `process`. `started` is when the thread was first seen to start.
    pub fn give(
        &self,
        process: &Process,
        want: &Want,
        started: u64,
        cpu: Option<u32>,
    ) -> Result<(), GiveError> {
        let thread = want.thread;
        let same = || match process.thread_start(thread) {
            Some(start) if start == started => Ok(()),
            _ => Err(GiveError::NotYours { thread, pid: process.id.pid }),
        };
        same()?;
        match &want.what {
            What::Upcalls(upcalls) => {
                self.limit_running(process)?;
                if let Some(&cpu) = cpu.and_then(|cpu| self.cpus.get(cpu as usize)) {
                    pin(thread, &[cpu]).map_err(|errno| GiveError::Pinned {
                        thread,
                        cpu,
                        errno,
                    })?;
                }
                match self.order {
                    Order::Ceiling => set_limit(
                        process,
                        Resource::Rtprio,
                        "RLIMIT_RTPRIO",
                        (CEILING.into(), CEILING.into()),
                    )?,
                    Order::Level => sched::set(thread, Class::Fifo { priority: level(upcalls) })?,
                }
            }
            What::Reservation(reservation) => {
                sched::set(
                    thread,
                    Class::Deadline { reservation: *reservation, reset_on_fork: true },
                )?;
            }
            What::Priority { .. } => {
                self.limit_running(process)?;
                sched::set(thread, Class::Fifo { priority: PRIORITY })?;
            }
        }
        same().inspect_err(|_| _ = self.take_class(thread))
    }

    /// Takes back what `want` gave; whether a remnant stays.
    ///
    /// A thread that still stands under SCHED_DEADLINE cannot be moved out by another
    /// ([`SchedError::MustLeaveItself`]). It keeps [`remnant`] until it leaves, for which it then
    /// needs no privilege, or ends.
    ///
    /// `others` says whether the process has other grants: then its limits stay.
    pub fn take_back(
        &self,
        process: &Process,
        want: &Want,
        started: u64,
        old: Option<OldLimits>,
        others: bool,
    ) -> bool {
        if let (Some(old), false) = (old, others) {
            let pid = process.id.pid;
            // In this order: who may not rise any more can then be brought down for good.
            let _ = restore(pid, Resource::Rtprio, old.rtprio);
            let _ = restore(pid, Resource::Rttime, old.rttime);
        }
        let mut remains = false;
        if process.thread_start(want.thread) == Some(started) {
            // An error: it ended meanwhile.
            remains = self.take_class(want.thread).unwrap_or(false);
            if matches!(want.what, What::Upcalls(_)) {
                let every: Vec<usize> = (0..CpuSet::MAX_CPU).collect();
                let _ = pin(want.thread, &every);
            }
        }
        remains
    }

    /// Makes `thread` an ordinary one, or nearly: then true.
    fn take_class(&self, thread: Tid) -> Result<bool, SchedError> {
        let now = sched::get(thread)?;
        match (now.policy_name(), now.class()) {
            ("SCHED_DEADLINE", Some(Class::Deadline { reservation, .. })) => {
                let reservation = remnant(reservation);
                // Without the flag, which only the privileged may take away: with it, it could not
                // leave the class either (sched_setattr(2), EPERM).
                sched::set(thread, Class::Deadline { reservation, reset_on_fork: false })?;
                Ok(true)
            }
            ("SCHED_FIFO" | "SCHED_RR", _) => {
                sched::set(thread, Class::Other { nice: 0 })?;
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    /// The limits of a process before its first grant, where they will be changed.
    pub fn old_limits(&self, process: &Process) -> Option<OldLimits> {
        self.may_limit.then(|| limits_of(process.id.pid)).flatten()
    }

    fn limit_running(&self, process: &Process) -> Result<(), GiveError> {
        let pid = process.id.pid;
        let (soft, hard) = (self.run_limit, self.run_limit * 2);
        let micros = |time: Duration| time.as_nanos() / 1_000;
        if self.may_limit {
            return set_limit(
                process,
                Resource::Rttime,
                "RLIMIT_RTTIME",
                (micros(soft), micros(hard)),
            );
        }
        let has = limits_of(pid).and_then(|limits| limits.rttime.1).map(Duration::from_micros);
        if has.is_some_and(|has| has <= hard) {
            Ok(())
        } else {
            Err(GiveError::NoRunLimit { pid, has, most: hard })
        }
    }
}

/// What a thread keeps that does not leave SCHED_DEADLINE: 2 % of a CPU, or what it had if that is
/// less.
///
/// Not the least there is: a thread without budget does not run, so it could neither leave the class
/// nor end when it is killed.
pub fn remnant(reservation: Reservation) -> Reservation {
    let least = Reservation::new(Service::from_millis(2), Duration::from_millis(100));
    match least {
        Ok(least) if least.utilisation_ppm() < reservation.utilisation_ppm() => least,
        _ => reservation,
    }
}

/// Whether `thread` of process `pid`, started then, still stands under SCHED_DEADLINE.
pub fn remains(pid: i32, thread: Tid, started: u64) -> bool {
    let deadline = sched::get(thread).is_ok_and(|now| now.policy_name() == "SCHED_DEADLINE");
    deadline && start_of(pid, thread.as_raw()) == Some(started)
}

/// The level of a thread with these upcalls.
fn level(upcalls: &[Upcall]) -> u8 {
    upcalls.iter().map(Upcall::period).min().map_or(LOWEST, level_of)
}

fn pin(thread: Tid, cpus: &[usize]) -> Result<(), Errno> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    sched_setaffinity(Pid::from_raw(thread.as_raw()), &set)
}

fn set_limit(
    process: &Process,
    resource: Resource,
    limit: &'static str,
    (soft, hard): (u64, u64),
) -> Result<(), GiveError> {
    let pid = process.id.pid;
    let new = Rlimit { current: Some(soft), maximum: Some(hard) };
    prlimit(Pid::from_raw(pid), resource, new).map(|_| ()).map_err(|errno| GiveError::Limit {
        limit,
        pid,
        errno,
    })
}

/// Puts a limit back (prlimit(2)).
pub(super) fn restore(
    pid: i32,
    resource: Resource,
    (soft, hard): (Option<u64>, Option<u64>),
) -> Result<(), Errno> {
    prlimit(Pid::from_raw(pid), resource, Rlimit { current: soft, maximum: hard }).map(|_| ())
}

/// From /proc/PID/limits, which everybody may read; prlimit(2) would ask for privilege.
pub fn limits_of(pid: i32) -> Option<OldLimits> {
    parse_limits(&fs::read_to_string(format!("/proc/{pid}/limits")).ok()?)
}

fn parse_limits(text: &str) -> Option<OldLimits> {
    let line = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        let mut words = rest.split_whitespace();
        let mut number = || match words.next()? {
            "unlimited" => Some(None),
            number => number.parse().ok().map(Some),
        };
        Some((number()?, number()?))
    };
    Some(OldLimits {
        rtprio: line("Max realtime priority")?,
        rttime: line("Max realtime timeout")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let text = "Limit   Soft Limit  Hard Limit  Units\n\
                    Max realtime priority     0                    5                    \n\
                    Max realtime timeout      200000               unlimited            us\n";
        let limits = OldLimits { rtprio: (Some(0), Some(5)), rttime: (Some(200_000), None) };
        assert_eq!(parse_limits(text), Some(limits));
        assert_eq!(parse_limits("Max realtime priority 0 0"), None);
        assert!(limits_of(std::process::id() as i32).is_some());
    }
}
