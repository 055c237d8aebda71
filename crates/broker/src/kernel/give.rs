//! Putting a grant in force.

use punctual_analysis::UpcallOrder;
use punctual_linux::sched::{self, Class};
use punctual_linux::thread::Tid;
use punctual_model::Duration;
use punctual_runtime::level_order::GUARD;
use rustix::process::Resource;

use super::class::{PRIORITY, level, pin, take_class};
use super::error::GiveError;
use super::limits::{limits_of, set_limit, settable_limits_of};
use super::peer::{Process, Thread};
use crate::ledger::OldLimits;
use punctual_client::want::{Guarantee, Want};

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

/// Makes `thread` of `process`, which runs as user `uid`, an ordinary one with this nice value.
pub fn set_nice(process: &Process, uid: u32, thread: Tid, nice: i32) -> Result<(), GiveError> {
    let pid = process.id.pid;
    let not_yours = || GiveError::NotYours { thread, pid };
    let started = process.thread_start(thread).ok_or_else(not_yours)?;
    if !process.belongs_to(uid) {
        return Err(GiveError::OtherUser { pid, uid });
    }
    let before = sched::nice_of(thread)?;
    sched::set_resetting(thread, Class::Other { nice })?;
    if process.thread_start(thread) == Some(started) {
        return Ok(());
    }
    // The id has passed to another thread, which was an ordinary one.
    let _ = sched::set_without_retry(thread, Class::Other { nice: before });
    Err(not_yours())
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
        let seen = process.thread(thread).filter(|seen| seen.start == started);
        let seen = seen.ok_or(GiveError::NotYours { thread, pid: process.id.pid })?;
        self.prepare(process, uid, want, &seen, cpu)?;
        self.put_in_force(process, want, &seen)
    }

    /// Does everything of [`Self::give`] that gives the thread nothing: checks whose it is, limits
    /// how long it may run, and puts it on its CPU. `seen` is the thread when it was first seen.
    pub fn prepare(
        &self,
        process: &Process,
        uid: u32,
        want: &Want,
        seen: &Thread,
        cpu: Option<u32>,
    ) -> Result<(), GiveError> {
        let thread = want.thread;
        let pid = process.id.pid;
        still_has(process, thread, seen)?;
        // Not checked again below: a class outlives execve(2), so the holder of a grant may execute
        // another user's program at any time.
        if !process.belongs_to(uid) {
            return Err(GiveError::OtherUser { pid, uid });
        }
        // The kernel ends the budgets of the one, and the dispatcher those of the other.
        if matches!(want.what, Guarantee::Reservation(_) | Guarantee::Program { .. }) {
            return Ok(());
        }
        self.limit_running(process)?;
        let cpu = match &want.what {
            Guarantee::Upcalls(_) => cpu.and_then(|cpu| self.cpus.get(cpu as usize)),
            _ => None,
        };
        if let Some(&cpu) = cpu {
            pin(thread, &[cpu]).map_err(|errno| GiveError::Pinned { thread, cpu, errno })?;
        }
        Ok(())
    }

    /// Gives a thread its class, or its process the limit, after [`Self::prepare`].
    pub fn put_in_force(
        &self,
        process: &Process,
        want: &Want,
        seen: &Thread,
    ) -> Result<(), GiveError> {
        let thread = want.thread;
        match &want.what {
            Guarantee::Upcalls(upcalls) => match self.order {
                UpcallOrder::LevelOrder => set_limit(
                    process,
                    Resource::Rtprio,
                    "RLIMIT_RTPRIO",
                    (GUARD.into(), GUARD.into()),
                )?,
                UpcallOrder::FixedLevel => {
                    sched::set_resetting(thread, Class::Fifo { priority: level(upcalls) })?;
                }
            },
            Guarantee::Reservation(reservation) => {
                sched::set_without_retry(
                    thread,
                    Class::Deadline { reservation: *reservation, reset_on_fork: true },
                )?;
            }
            // The dispatcher holds it.
            Guarantee::Program { .. } => {}
            Guarantee::Priority { .. } => {
                sched::set_resetting(thread, Class::Fifo { priority: PRIORITY })?;
            }
        }
        still_has(process, thread, seen).inspect_err(|_| _ = take_class(thread))
    }

    /// Returns the limits of a process before its first grant, if they will be changed.
    pub fn old_limits(&self, process: &Process) -> Option<OldLimits> {
        self.may_limit.then(|| settable_limits_of(process.id.pid)).flatten()
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

/// Checks that the thread that was `seen` is still a thread of `process`.
fn still_has(process: &Process, thread: Tid, seen: &Thread) -> Result<(), GiveError> {
    if process.still_has(seen) {
        return Ok(());
    }
    Err(GiveError::NotYours { thread, pid: process.id.pid })
}
