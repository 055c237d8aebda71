//! Taking a grant back from a thread that may be alive.

use punctual_linux::sched::{self, Class};
use punctual_linux::thread::Tid;
use rustix::process::Resource;
use rustix::thread::CpuSet;

use super::class::{level_of_grant, pin, take_class};
use super::give::Means;
use super::limits::restore;
use super::peer::{Process, start_of};
use crate::ledger::Record;
use punctual_client::want::{Guarantee, Want};

/// Other grants of the process, which stay.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    /// Whether other grants of the process depend on its limits: then those stay.
    pub limited: bool,
    /// Whether its first thread has another grant, or a residual reservation.
    pub leader: bool,
}

/// A thread that has not left SCHED_DEADLINE, and its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// The thread.
    pub thread: Tid,
    /// Its start, as in [`Record::thread_start`].
    pub started: u64,
}

impl Means {
    /// Takes back what `want` of `record` gave, unless the dispatcher holds it. Returns the thread that keeps a residual
    /// reservation, if one does.
    ///
    /// No other thread can move a thread that is still under SCHED_DEADLINE out of it
    /// ([`sched::SchedError::MustLeaveItself`]). It keeps its
    /// [residual](super::class::residual) until it ends, or until it leaves, for which it then
    /// needs no privilege.
    ///
    /// A thread that execs takes over the id of the first thread, with its class (execve(2)): then
    /// it is looked for there.
    pub fn take_back(
        &self,
        process: &Process,
        want: &Want,
        record: &Record,
        beside: Beside,
    ) -> Option<Left> {
        // Its id may belong to another process by now, and limits are set by id.
        if process.has_ended() || matches!(want.what, Guarantee::Program { .. }) {
            return None;
        }
        if let (Some(old), false) = (record.old_limits, beside.limited) {
            let pid = process.id.pid;
            // In this order: a thread that may no longer raise itself can then be lowered for good.
            let _ = restore(pid, Resource::Rtprio, old.rtprio);
            let _ = restore(pid, Resource::Rttime, old.rttime);
        }
        let here = Left { thread: want.thread, started: record.thread_start };
        let left = if process.thread_start(here.thread) == Some(here.started) {
            here
        } else {
            leader_with(process, beside, |now| match want.what {
                Guarantee::Reservation(_) => now.policy_name() == "SCHED_DEADLINE",
                _ => now.class().is_some_and(|class| {
                    let fixed = level_of_grant(self.order, &want.what);
                    fixed.map(|priority| Class::Fifo { priority }) == Some(class)
                }),
            })?
        };
        // An error means that it ended meanwhile.
        let remains = take_class(left.thread).unwrap_or(false);
        if matches!(want.what, Guarantee::Upcalls(_)) {
            let every: Vec<usize> = (0..CpuSet::MAX_CPU).collect();
            let _ = pin(left.thread, record.old_cpus.as_deref().unwrap_or(&every));
        }
        // A thread under SCHED_DEADLINE without such a grant is the residual of another grant, and
        // known.
        (remains && matches!(want.what, Guarantee::Reservation(_))).then_some(left)
    }
}

/// Returns the first thread of `process`, if nothing else is granted to it and its scheduling is as
/// `as_given` says.
pub(crate) fn leader_with(
    process: &Process,
    beside: Beside,
    as_given: impl FnOnce(sched::Scheduling) -> bool,
) -> Option<Left> {
    let thread = Tid::from_raw(process.id.pid)?;
    let left = Left { thread, started: process.thread_start(thread)? };
    (!beside.leader && as_given(sched::get(thread).ok()?)).then_some(left)
}

/// Returns where the residual of `record` is after an exec of its thread.
pub fn moved_to(record: &Record) -> Option<Left> {
    let process = Process::find(record.process)?;
    let nothing = Beside { limited: false, leader: false };
    leader_with(&process, nothing, |now| now.policy_name() == "SCHED_DEADLINE")
}

/// Returns whether `thread` of process `pid`, with this start, is still under SCHED_DEADLINE.
pub fn remains(pid: i32, thread: Tid, started: u64) -> bool {
    let deadline = sched::get(thread).is_ok_and(|now| now.policy_name() == "SCHED_DEADLINE");
    deadline && start_of(pid, thread.as_raw()) == Some(started)
}
