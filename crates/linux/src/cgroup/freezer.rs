//! Stopping and continuing all members of a group with one write each.
//!
//! Version 2 (`cgroup.freeze`): a frozen process can be killed. The write marks each thread, and a
//! marked thread stops on its way back to user mode. So a thread that shares the writer's CPU and
//! has a lower priority does not execute another instruction of its own; a thread inside a long
//! system call stops when that returns. The write takes the kernel's one lock for control groups:
//! it waits while another process moves processes between groups.
//!
//! Version 1 (`freezer.state`): the same, but a frozen process cannot be killed, and a write costs
//! some ten times as much. It is used where version 2 is not mounted, or cannot hold single
//! threads.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use punctual_model::time::Duration;
use rustix::io::Errno;

use super::{CgroupError, Group, Hierarchy, IdList, sweep};
use crate::{clock, process};

/// How long a group may take to report that it is frozen or thawed.
const SETTLING: Duration = Duration::from_secs(2);

/// A group whose members can be frozen. Dropping it thaws them.
#[derive(Debug)]
pub struct Freezer {
    /// Dropped after the freezer's own drop has thawed it.
    group: Group,
    state: File,
    threads: IdList,
    v1: bool,
}

impl Freezer {
    /// Makes a group inside the group of `pid`, so that its limits and accounting still apply, and
    /// moves `pid` there with all its threads. What they start later is in it, too.
    pub fn of_process(pid: i32) -> Result<Self, CgroupError> {
        let freezer = Self::inside(pid, false)?;
        freezer.group.add(pid)?;
        Ok(freezer)
    }

    /// Makes a group inside the group of `pid` for one of its threads, and moves the thread there.
    pub fn of_thread(pid: i32, tid: i32) -> Result<Self, CgroupError> {
        let freezer = Self::inside(pid, true)?;
        freezer.group.add(tid)?;
        Ok(freezer)
    }

    /// Makes an empty group, for processes that `pid` will start, inside the group of `pid`.
    pub fn for_children_of(pid: i32) -> Result<Self, CgroupError> {
        Self::inside(pid, false)
    }

    fn inside(pid: i32, threaded: bool) -> Result<Self, CgroupError> {
        let none = CgroupError::NotMounted {
            feature: "freezing a group of processes",
            tried: "cgroup.freeze of version 2, freezer.state of version 1",
        };
        let mut refused = none;
        for hierarchy in [Hierarchy::v2(), Hierarchy::v1("freezer")].into_iter().flatten() {
            let Some(parent) = hierarchy.group_of(pid) else { continue };
            match Self::make(&parent, hierarchy.is_v1(), threaded) {
                Ok(freezer) => return Ok(freezer),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    fn make(parent: &Path, v1: bool, threaded: bool) -> Result<Self, CgroupError> {
        sweep(parent, v1, |stale| {
            let _ = thaw(stale, v1);
            for thread in stale.threads() {
                let _ = process::lower(thread);
            }
        });
        let group =
            if threaded { Group::make_threaded(parent, v1) } else { Group::make(parent, v1) }?;
        let path = group.path().join(name(v1));
        let state = File::options().read(true).write(true).open(&path);
        let state = state.map_err(CgroupError::file("opening", path))?;
        let threads = IdList::open(&group.threads_file())?;
        Ok(Self { group, state, threads, v1 })
    }

    /// Returns the group.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Returns the list of the threads in the group now, for the hot path.
    pub fn threads(&self) -> &IdList {
        &self.threads
    }

    /// Returns true for version 1.
    pub fn is_v1(&self) -> bool {
        self.v1
    }

    /// Freezes all members: ten to twenty microseconds, more with many threads. Allocates nothing.
    ///
    /// # Errors
    /// The error of write(2): ENODEV if the group has been removed.
    pub fn freeze(&self) -> Result<(), Errno> {
        self.write(if self.v1 { b"FROZEN" } else { b"1" })
    }

    /// Thaws all members, at the same cost as [`freeze`](Self::freeze).
    ///
    /// # Errors
    /// As [`freeze`](Self::freeze).
    pub fn thaw(&self) -> Result<(), Errno> {
        self.write(if self.v1 { b"THAWED" } else { b"0" })
    }

    fn write(&self, text: &[u8]) -> Result<(), Errno> {
        rustix::io::pwrite(self.state.as_fd(), text, 0).map(|_| ())
    }

    fn state_path(&self) -> PathBuf {
        self.group.path().join(name(self.v1))
    }

    /// Freezes, and waits until the kernel reports that all members are frozen. This is for a
    /// probe, not for the hot path.
    pub fn freeze_and_see(&self) -> Result<(), CgroupError> {
        let failed = CgroupError::file("writing", self.state_path());
        self.freeze().map_err(|errno| failed(errno.into()))?;
        let until = clock::now() + SETTLING;
        let (file, still) =
            if self.v1 { ("freezer.state", "FROZEN") } else { ("cgroup.events", "frozen 1") };
        let path = self.group.path().join(file);
        loop {
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            if found.contains(still) {
                return Ok(());
            }
            if clock::now() >= until {
                return Err(CgroupError::NoEffect { feature: "freezing a group", path, found });
            }
            clock::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        // The members must go on, whatever happens to the group.
        let _ = self.thaw();
    }
}

fn name(v1: bool) -> &'static str {
    if v1 { "freezer.state" } else { "cgroup.freeze" }
}

fn thaw(group: &Group, v1: bool) -> Result<(), CgroupError> {
    group.write(name(v1), if v1 { "THAWED" } else { "0" })
}
