//! Taking a grant back from a thread that may be alive.

use punctual_linux::sched::{self, Class, SchedError};
use punctual_linux::thread::Tid;
use punctual_model::{Duration, Reservation, Service};
use rustix::process::Resource;
use rustix::thread::CpuSet;

use super::give::{Means, level_of_grant, pin};
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
    /// Takes back what `want` of `record` gave. Returns the thread that keeps a residual
    /// reservation, if one does.
    ///
    /// No other thread can move a thread that is still under SCHED_DEADLINE out of it
    /// ([`SchedError::MustLeaveItself`]). It keeps [`residual`] until it ends, or until it leaves,
    /// for which it then needs no privilege.
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
        if process.has_ended() {
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

/// Makes `thread` an ordinary one. Returns `true` if it keeps a residual reservation.
pub(crate) fn take_class(thread: Tid) -> Result<bool, SchedError> {
    let now = sched::get(thread)?;
    match (now.policy_name(), now.class()) {
        ("SCHED_DEADLINE", Some(Class::Deadline { reservation, .. })) => {
            let reservation = residual(reservation);
            // Without the flag, which only a privileged thread may take away: with it, the thread
            // could not leave the class either (sched_setattr(2), EPERM).
            sched::set_without_retry(
                thread,
                Class::Deadline { reservation, reset_on_fork: false },
            )?;
            Ok(true)
        }
        ("SCHED_FIFO" | "SCHED_RR", _) => {
            let nice = sched::nice_of(thread)?;
            sched::set_without_retry(thread, Class::Other { nice })?;
            Ok(false)
        }
        _ => Ok(false),
    }
}

/// Returns the reservation that a thread keeps while it does not leave SCHED_DEADLINE: its budget,
/// but at most 2 ms, in no more than 2 % of a CPU and never more often than before.
///
/// It is not the least possible: a thread without budget does not run, so it could neither leave
/// the class nor end when it is killed. With no longer budget and no shorter period it delays no
/// upcall more than before.
pub fn residual(reservation: Reservation) -> Reservation {
    let budget = reservation.budget().min(Service::from_millis(2));
    let period = reservation.period().max(Duration::from_nanos(budget.as_nanos() * 50));
    Reservation::new(budget, period).unwrap_or(reservation)
}

/// Returns whether `thread` of process `pid`, with this start, is still under SCHED_DEADLINE.
pub fn remains(pid: i32, thread: Tid, started: u64) -> bool {
    let deadline = sched::get(thread).is_ok_and(|now| now.policy_name() == "SCHED_DEADLINE");
    deadline && start_of(pid, thread.as_raw()) == Some(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remnant_is_no_more_and_no_more_frequent_than_what_it_is_left_of() {
        for (had, keeps) in [
            ("2ms/10ms", "2ms/100ms"),
            ("5ms/8ms", "2ms/100ms"),
            ("100us/1ms", "100us/5ms"),
            ("1ms/800ms", "1ms/800ms"),
            ("500ms/1s", "2ms/1s"),
        ] {
            let had: Reservation = had.parse().expect("valid");
            let keeps: Reservation = keeps.parse().expect("valid");
            assert_eq!(residual(had), keeps, "{had}");
        }
    }
}
