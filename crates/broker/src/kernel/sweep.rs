//! A sweep for real-time threads without a grant.
//!
//! `RLIMIT_RTPRIO`, which the level-order protocol takes, is inherited by every process that a
//! process forks (getrlimit(2)). So the sweep visits the processes of every user that holds or held
//! such a grant: it restores a limit that came from a grant, and makes the real-time threads of
//! such a process ordinary ones if no grant covers them. Processes with limits of their own are
//! left alone, and so are classes that another service gave (rtkit). A class that the broker itself
//! gave is not inherited (SCHED_RESET_ON_FORK).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use punctual_linux::thread::Tid;
use punctual_linux::{procfs, sched};
use punctual_runtime::level_order::GUARD;
use rustix::process::Resource;

use super::class::take_class;
use super::limits::{limits_of, restore};
use super::peer::{Process, has_our_users, start_of};
use crate::ledger::{OldLimits, ProcessId};

/// The threads and limits that are in order.
#[derive(Debug, Default)]
pub struct Allowed {
    /// Threads with a grant, and their start times.
    pub threads: BTreeMap<i32, u64>,
    /// Processes that may run the level-order protocol, with every thread.
    pub processes: BTreeSet<ProcessId>,
    /// By user: the limits that a grant replaced, and the start of the first process that had one.
    pub old_limits: BTreeMap<u32, (OldLimits, u64)>,
}

/// The result of a sweep through all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Threads and limits that were put in order.
    pub put_back: usize,
    /// Live processes of which something could not be read or changed: sweep again.
    pub unclear: usize,
}

/// Puts the processes of `users` in order.
///
/// `lowered` are the processes whose limit was restored before; those of this sweep are added.
pub fn sweep(users: &BTreeSet<u32>, allowed: &Allowed, lowered: &mut BTreeSet<ProcessId>) -> Swept {
    let mut swept = Swept::default();
    let Ok(entries) = fs::read_dir("/proc") else { return Swept { unclear: 1, ..swept } };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(owner) = entry.metadata().map(|metadata| metadata.uid()) else { continue };
        // A process without core dumps belongs to root in /proc (proc(5)).
        let uid = if owner == 0 { uid_of(pid) } else { Some(owner) };
        if let Some(uid) = uid.filter(|uid| users.contains(uid)) {
            let Some(start) = start_of(pid, pid) else { continue };
            let id = ProcessId { pid, start };
            match one(id, uid, allowed, lowered) {
                Some(put_back) => swept.put_back += put_back,
                // Or it has ended.
                None => swept.unclear += usize::from(Process::find(id).is_some()),
            }
        }
    }
    swept
}

/// Puts one process in order. Returns how many threads and limits were changed, or `None` if that
/// is not known.
fn one(
    id: ProcessId,
    uid: u32,
    allowed: &Allowed,
    lowered: &mut BTreeSet<ProcessId>,
) -> Option<usize> {
    if allowed.processes.contains(&id) {
        return Some(0);
    }
    let pid = id.pid;
    let mut found = 0;
    if let Some((old, since)) = allowed.old_limits.get(&uid)
        && id.start >= *since
    {
        let hard = limits_of(pid)?.rtprio.1;
        // The limit came from the broker, and not from elsewhere.
        if hard == Some(u64::from(GUARD)) && above(hard, old.rtprio.1) {
            // Limits are set by id: the process must be alive.
            let process = Process::find(id)?;
            restore(pid, Resource::Rtprio, old.rtprio).ok()?;
            if process.has_ended() {
                return None;
            }
            lowered.insert(id);
            found += 1;
        }
    }
    // A process that may have the class without the broker keeps it.
    if !lowered.contains(&id) || has_sys_nice(pid)? {
        return Some(found);
    }
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let id = task.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let Some(thread) = id.and_then(Tid::from_raw) else { continue };
        let real_time =
            |now: sched::Scheduling| matches!(now.policy_name(), "SCHED_FIFO" | "SCHED_RR");
        if !sched::get(thread).is_ok_and(real_time) {
            continue;
        }
        let Some(started) = start_of(pid, thread.as_raw()) else { continue };
        if allowed.threads.get(&thread.as_raw()) != Some(&started) && take_class(thread).is_ok() {
            found += 1;
        }
    }
    Some(found)
}

/// Returns the effective user.
fn uid_of(pid: i32) -> Option<u32> {
    let status = procfs::text(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Returns whether a limit is higher; none is the highest.
fn above(has: Option<u64>, than: Option<u64>) -> bool {
    has.unwrap_or(u64::MAX) > than.unwrap_or(u64::MAX)
}

/// Returns bit 23 of the effective capabilities (capabilities(7)), which counts only in our user
/// namespace; `None` if it cannot be read.
fn has_sys_nice(pid: i32) -> Option<bool> {
    let status = procfs::text(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let bits = u64::from_str_radix(line.trim(), 16).ok()?;
    Some(bits >> 23 & 1 == 1 && has_our_users(pid).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlimited_is_above_all() {
        assert!(above(None, Some(99)));
        assert!(above(Some(80), Some(0)));
        assert!(!above(Some(0), Some(0)) && !above(None, None) && !above(Some(5), None));
    }

    #[test]
    fn nothing_of_an_ordinary_user_is_out_of_order() {
        let nobody = BTreeSet::from([u32::MAX - 7]);
        let mut lowered = BTreeSet::new();
        assert_eq!(sweep(&nobody, &Allowed::default(), &mut lowered), Swept::default());
        assert!(lowered.is_empty());
    }
}
