//! Real-time threads that nobody was granted.
//!
//! SCHED_FIFO and `RLIMIT_RTPRIO` pass to whatever a process forks (sched(7), getrlimit(2)). So the
//! processes of every user who holds or held a grant are looked through: a SCHED_FIFO thread that no
//! grant covers, of a process whose own limits would not let it be one, becomes an ordinary thread,
//! and a limit that came from a grant is put back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use punctual_linux::sched::{self, Class};
use punctual_linux::thread::Tid;
use rustix::process::Resource;

use super::give::{limits_of, restore};
use super::peer::start_of;
use crate::ledger::{OldLimits, ProcessId};

/// What is in order.
#[derive(Debug, Default)]
pub struct Allowed {
    /// Threads with a grant, and when they started.
    pub threads: BTreeMap<i32, u64>,
    /// Processes that may run the ceiling protocol: every thread of them.
    pub processes: BTreeSet<ProcessId>,
    /// By user: the limits that a grant replaced, and the start of the first process that had one.
    pub old_limits: BTreeMap<u32, (OldLimits, u64)>,
}

/// Puts in order what belongs to `users`. How many threads or limits were not.
pub fn sweep(users: &BTreeSet<u32>, allowed: &Allowed) -> usize {
    let Ok(entries) = fs::read_dir("/proc") else { return 0 };
    let mut found = 0;
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(owner) = entry.metadata().map(|metadata| metadata.uid()) else { continue };
        // What belongs to a process that wants no core dumps belongs to root (proc(5)).
        let uid = if owner == 0 { uid_of(pid) } else { Some(owner) };
        if let Some(uid) = uid.filter(|uid| users.contains(uid)) {
            found += one(pid, uid, allowed);
        }
    }
    found
}

fn one(pid: i32, uid: u32, allowed: &Allowed) -> usize {
    let Some(start) = start_of(pid, pid) else { return 0 };
    if allowed.processes.contains(&ProcessId { pid, start }) {
        return 0;
    }
    let Some(mut limits) = limits_of(pid) else { return 0 };
    let mut found = 0;
    if let Some((old, since)) = allowed.old_limits.get(&uid)
        && start >= *since
        && above(limits.rtprio.1, old.rtprio.1)
        && restore(pid, Resource::Rtprio, old.rtprio).is_ok()
    {
        limits.rtprio = old.rtprio;
        found += 1;
    }
    // Whoever may have the class without us has it without us.
    if limits.rtprio.0 != Some(0) || has_sys_nice(pid) {
        return found;
    }
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return found };
    for task in tasks.flatten() {
        let id = task.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let Some(thread) = id.and_then(Tid::from_raw) else { continue };
        if !matches!(sched::get(thread).map(|now| now.class()), Ok(Some(Class::Fifo { .. }))) {
            continue;
        }
        let Some(started) = start_of(pid, thread.as_raw()) else { continue };
        if allowed.threads.get(&thread.as_raw()) != Some(&started)
            && sched::set(thread, Class::Other { nice: 0 }).is_ok()
        {
            found += 1;
        }
    }
    found
}

/// The effective user.
fn uid_of(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Whether a limit is higher; none is the highest.
fn above(has: Option<u64>, than: Option<u64>) -> bool {
    has.unwrap_or(u64::MAX) > than.unwrap_or(u64::MAX)
}

/// Bit 23 of the effective capabilities (capabilities(7)).
fn has_sys_nice(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> 23 & 1 == 1)
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
        assert_eq!(sweep(&BTreeSet::from([u32::MAX - 7]), &Allowed::default()), 0);
    }
}
