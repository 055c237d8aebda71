//! Putting a grant in force.

use punctual_analysis::UpcallOrder;
use punctual_linux::sched::{self, Class, SchedError};
use punctual_linux::thread::Tid;
use punctual_model::{Duration, Upcall};
use punctual_runtime::level_order::{GUARD, LOWEST, level_of};
use rustix::io::Errno;
use rustix::process::{Pid, Resource};
use rustix::thread::{CpuSet, sched_setaffinity};
use thiserror::Error;

use super::limits::{limits_of, set_limit};
use super::peer::Process;
use super::take::take_class;
use crate::ledger::OldLimits;
use punctual_client::want::{Guarantee, Want};

/// The SCHED_FIFO priority of a grant of bare priority: below all upcalls.
pub const PRIORITY: u8 = LOWEST - 1;

/// The reason why a grant is not in force.
#[derive(Debug, Error)]
pub enum GiveError {
    /// The kernel refused the class.
    #[error(transparent)]
    Class(#[from] SchedError),
    /// The thread is not the peer's, or has ended.
    #[error(
        "thread {thread} is no thread of process {pid}; give the kernel's id (gettid(2)) of one of your own"
    )]
    NotYours {
        /// The id that was given.
        thread: Tid,
        /// The peer.
        pid: i32,
    },
    /// The process now runs as another user, or partly so.
    #[error(
        "process {pid} does not run as user {uid} alone (real, effective, saved and file system user): \
         ask as the user that is to hold the grant"
    )]
    OtherUser {
        /// The peer.
        pid: i32,
        /// The user that connected.
        uid: u32,
    },
    /// A limit cannot be set.
    #[error("{limit} of process {pid} cannot be set: {errno}")]
    Limit {
        /// The name of the limit.
        limit: &'static str,
        /// The process.
        pid: i32,
        /// The error.
        errno: Errno,
    },
    /// The process would not be stopped if it ran for ever.
    #[error(
        "process {pid} has a hard RLIMIT_RTTIME of {}, and SCHED_FIFO is given only with one of at \
         most {most}: set it (setrlimit(2)) and ask again", found(*.has)
    )]
    NoRunLimit {
        /// The process.
        pid: i32,
        /// Its limit.
        has: Option<Duration>,
        /// The highest limit allowed.
        most: Duration,
    },
    /// The thread cannot be pinned.
    #[error("thread {thread} cannot run on CPU {cpu}, where its upcalls were admitted: {errno}")]
    Pinned {
        /// The thread.
        thread: Tid,
        /// The CPU.
        cpu: usize,
        /// The error.
        errno: Errno,
    },
}

fn found(limit: Option<Duration>) -> String {
    limit.map_or_else(|| "none".into(), |limit| limit.to_string())
}

/// The means by which this host puts grants in force.
#[derive(Clone, Debug)]
pub struct Means {
    /// The way in which upcall threads get their priority.
    pub order: UpcallOrder,
    /// Whether limits of other processes can be set.
    pub may_limit: bool,
    /// The time for which a SCHED_FIFO thread may run without sleeping.
    pub run_limit: Duration,
    /// The kernel's number of each CPU of the admission state.
    pub cpus: Vec<usize>,
}

impl Means {
    /// Puts `want` in force for `process` of user `uid`. `started` is the start of the thread when
    /// it was first seen.
    ///
    /// Never waits: if the kernel has no bandwidth at this moment, it returns that as the error.
    pub fn give(
        &self,
        process: &Process,
        uid: u32,
        want: &Want,
        started: u64,
        cpu: Option<u32>,
    ) -> Result<(), GiveError> {
        let thread = want.thread;
        let pid = process.id.pid;
        let same = || match process.thread_start(thread) {
            Some(start) if start == started => Ok(()),
            _ => Err(GiveError::NotYours { thread, pid }),
        };
        same()?;
        // Not checked again below: a class outlives execve(2), so the holder of a grant may execute
        // another user's program at any time.
        if !process.belongs_to(uid) {
            return Err(GiveError::OtherUser { pid, uid });
        }
        match &want.what {
            Guarantee::Upcalls(upcalls) => {
                self.limit_running(process)?;
                if let Some(&cpu) = cpu.and_then(|cpu| self.cpus.get(cpu as usize)) {
                    pin(thread, &[cpu]).map_err(|errno| GiveError::Pinned {
                        thread,
                        cpu,
                        errno,
                    })?;
                }
                match self.order {
                    UpcallOrder::LevelOrder => set_limit(
                        process,
                        Resource::Rtprio,
                        "RLIMIT_RTPRIO",
                        (GUARD.into(), GUARD.into()),
                    )?,
                    UpcallOrder::FixedLevel => {
                        sched::set_resetting(thread, Class::Fifo { priority: level(upcalls) })?;
                    }
                }
            }
            Guarantee::Reservation(reservation) => {
                sched::set_without_retry(
                    thread,
                    Class::Deadline { reservation: *reservation, reset_on_fork: true },
                )?;
            }
            Guarantee::Priority { .. } => {
                self.limit_running(process)?;
                sched::set_resetting(thread, Class::Fifo { priority: PRIORITY })?;
            }
        }
        same().inspect_err(|_| _ = take_class(thread))
    }

    /// Returns the limits of a process before its first grant, if they will be changed.
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

/// Returns the SCHED_FIFO priority of a thread that was granted `what`, if it is fixed.
pub(crate) fn level_of_grant(order: UpcallOrder, what: &Guarantee) -> Option<u8> {
    match what {
        Guarantee::Upcalls(upcalls) if order == UpcallOrder::FixedLevel => Some(level(upcalls)),
        Guarantee::Priority { .. } => Some(PRIORITY),
        _ => None,
    }
}

/// Returns the level of a thread with these upcalls.
fn level(upcalls: &[Upcall]) -> u8 {
    upcalls.iter().map(Upcall::period).min().map_or(LOWEST, level_of)
}

/// Lets `thread` run on these CPUs only.
pub(super) fn pin(thread: Tid, cpus: &[usize]) -> Result<(), Errno> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    sched_setaffinity(Pid::from_raw(thread.as_raw()), &set)
}
