//! Real-time threads that nobody was granted.
//!
//! `RLIMIT_RTPRIO`, which the level-order protocol takes, passes to whatever a process forks
//! (getrlimit(2)). So the processes of every user who holds or held such a grant are looked through:
//! a limit that came from a grant is put back, and real-time threads of such a process become
//! ordinary ones where no grant covers them. Processes with limits of their own are left alone, and
//! so is what others gave (rtkit). A class that the broker gave itself passes to nobody
//! (SCHED_RESET_ON_FORK).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use punctual_linux::thread::Tid;
use punctual_linux::{procfs, sched};
use punctual_runtime::level_order::GUARD;
use rustix::process::Resource;

use super::limits::{limits_of, restore};
use super::peer::{Process, has_our_users, start_of};
use super::take::take_class;
use crate::ledger::{OldLimits, ProcessId};

/// What is in order.
#[derive(Debug, Default)]
pub struct Allowed {
    /// Threads with a grant, and when they started.
    pub threads: BTreeMap<i32, u64>,
    /// Processes that may run the level-order protocol: every thread of them.
    pub processes: BTreeSet<ProcessId>,
    /// By user: the limits that a grant replaced, and the start of the first process that had one.
    pub old_limits: BTreeMap<u32, (OldLimits, u64)>,
}

/// What a look through all processes came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Threads and limits that were put in order.
    pub put_back: usize,
    /// Processes that live and of which something could not be read or changed: look again.
    pub unclear: usize,
}

/// Puts in order what belongs to `users`.
///
/// `lowered` are the processes whose limit was put back before; those of this look are added.
pub fn sweep(users: &BTreeSet<u32>, allowed: &Allowed, lowered: &mut BTreeSet<ProcessId>) -> Swept {
    let mut swept = Swept::default();
    let Ok(entries) = fs::read_dir("/proc") else { return Swept { unclear: 1, ..swept } };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(owner) = entry.metadata().map(|metadata| metadata.uid()) else { continue };
        // What belongs to a process that wants no core dumps belongs to root (proc(5)).
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

/// How many threads and limits were put in order; none if that is not known.
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
        // Ours, not one that the user came by in another way.
        if hard == Some(u64::from(GUARD)) && above(hard, old.rtprio.1) {
            // Limits are set by id: the process must live.
            let process = Process::find(id)?;
            restore(pid, Resource::Rtprio, old.rtprio).ok()?;
            if process.has_ended() {
                return None;
            }
            lowered.insert(id);
            found += 1;
        }
    }
    // Whoever may have the class without us has it without us.
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

/// The effective user.
fn uid_of(pid: i32) -> Option<u32> {
    let status = procfs::text(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Whether a limit is higher; none is the highest.
fn above(has: Option<u64>, than: Option<u64>) -> bool {
    has.unwrap_or(u64::MAX) > than.unwrap_or(u64::MAX)
}

/// Bit 23 of the effective capabilities (capabilities(7)), which counts only in our user namespace;
/// none if it cannot be read.
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
