//! CPUs set apart, so that threads pinned to them can hold reservations of the kernel's.
//!
//! SCHED_DEADLINE accepts only threads that may use every CPU of their root domain (sched(7)). An
//! exclusive cpuset makes a root domain of its own: in version 1 by `cpu_exclusive` with load
//! balancing off in its parent (cpuset(7)), in version 2 by `cpuset.cpus.partition = root`.
//!
//! Careless removal leaves the kernel's account of reserved bandwidth wrong until the root domains
//! are rebuilt. So [`Partition::remove`] keeps an order: it moves the members out, removes the
//! group and restores load balancing. Then it compares the bandwidth that can be admitted with the
//! bandwidth before, and rebuilds the domains if there is less.

use std::fs;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::{CgroupError, Group, Hierarchy, sweep};
use crate::bandwidth;
use crate::process::process_of;
use crate::sched::SchedError;
use crate::thread::Tid;

/// The reason CPUs cannot be set apart, or not be given back.
#[derive(Debug, Error)]
pub enum PartitionError {
    /// A group could not be made or written.
    #[error("CPUs cannot be set apart: {0}")]
    Group(#[from] CgroupError),
    /// The kernel does not report the bandwidth left.
    #[error("CPUs cannot be set apart, because nothing could be checked afterwards: {0}")]
    Unchecked(#[from] SchedError),
    /// A thread in the partition is still under SCHED_DEADLINE.
    #[error(
        "thread {thread} in the partition is still under SCHED_DEADLINE; it must leave that class \
         itself before the partition is removed"
    )]
    StillReserved {
        /// The thread.
        thread: crate::thread::Tid,
    },
    /// The partition was removed before.
    #[error("the partition is removed already; make another")]
    Removed,
    /// The account is wrong after removal, and rebuilding the domains did not help.
    #[error(
        "after the partition was removed the kernel admits only {after_ppm} parts per million of a \
         CPU, and {before_ppm} before: write 0 and then 1 to {} once no SCHED_DEADLINE thread runs",
        toggle.display()
    )]
    AccountWrong {
        /// The bandwidth that could be admitted before the partition was made.
        before_ppm: u64,
        /// The bandwidth that can be admitted now.
        after_ppm: u64,
        /// The file that rebuilds the domains.
        toggle: PathBuf,
    },
}

/// The tolerated difference between two measurements of the same account: other programs'
/// reservations come and go, and the kernel's free bandwidth varies by some percent of a CPU.
const SWAY_PPM: u64 = 60_000;

/// CPUs set apart. Dropping it gives them back and ignores errors.
#[derive(Debug)]
pub struct Partition {
    /// `None` after [`remove`](Self::remove).
    group: Option<Group>,
    v1: bool,
    /// True if the parent balanced load before; version 1 only.
    balanced: bool,
    before_ppm: u64,
    /// The former group of each process that was moved in; version 2 only.
    homes: Vec<(i32, PathBuf)>,
}

impl Partition {
    /// Sets `cpus` apart. Threads pinned to them keep running there; the kernel puts no other
    /// thread there.
    pub fn make(cpus: &[usize]) -> Result<Self, PartitionError> {
        let hierarchy = match Hierarchy::v1("cpuset") {
            Some(v1) => v1,
            None => Hierarchy::v2().filter(|v2| has_cpuset(&v2.root())).ok_or(
                CgroupError::NotMounted {
                    feature: "cpuset",
                    tried: "the controller cpuset of version 1 or 2",
                },
            )?,
        };
        let (root, v1) = (hierarchy.root(), hierarchy.is_v1());
        if sweep(&root, v1, |_| {}) > 0 && v1 {
            // The owner died before it could restore this: all CPUs are one domain again.
            let _ = write(&root, "cpuset.sched_load_balance", "1");
        }
        let before_ppm = bandwidth::left()?.left_ppm;
        if !v1 {
            write(&root, "cgroup.subtree_control", "+cpuset")?;
        }
        let list = cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let group = Group::make(&root, v1)?;
        let homes = Vec::new();
        let mut partition = Self { group: Some(group), v1, balanced: false, before_ppm, homes };
        partition.set_up(&root, &list)?;
        Ok(partition)
    }

    fn set_up(&mut self, root: &Path, list: &str) -> Result<(), PartitionError> {
        let Some(group) = &self.group else { return Ok(()) };
        group.write("cpuset.cpus", list)?;
        if !self.v1 {
            group.write("cpuset.cpus.partition", "root")?;
            let path = group.path().join("cpuset.cpus.partition");
            let found = fs::read_to_string(&path).unwrap_or_default();
            // The kernel accepts the write and then reports "root invalid (why)".
            if found.trim() != "root" {
                let feature = "a partition of CPUs";
                return Err(CgroupError::NoEffect { feature, path, found }.into());
            }
            return Ok(());
        }
        let mems = fs::read_to_string(root.join("cpuset.mems")).unwrap_or_default();
        group.write("cpuset.mems", mems.trim())?;
        group.write("cpuset.cpu_exclusive", "1")?;
        let balance = fs::read_to_string(root.join("cpuset.sched_load_balance"));
        self.balanced = balance.is_ok_and(|text| text.trim() == "1");
        write(root, "cpuset.sched_load_balance", "0")?;
        Ok(())
    }

    /// Moves a process or (version 1) a single thread in. Version 2 moves whole processes and has
    /// one hierarchy for everything. So the limits and accounting of the process's former group do
    /// not apply to it until the partition is removed and the process is moved back.
    ///
    /// # Errors
    /// [`PartitionError::Removed`], or the kernel's error.
    pub fn add(&mut self, id: i32) -> Result<(), PartitionError> {
        let group = self.group.as_ref().ok_or(PartitionError::Removed)?;
        if self.v1 {
            group.write("tasks", &id.to_string())?
        } else {
            // The kernel moves a thread's whole process.
            let process = Tid::from_raw(id).and_then(process_of).unwrap_or(id);
            let home = Hierarchy::v2().and_then(|v2| v2.group_of(process));
            group.add(process)?;
            self.homes.extend(home.map(|home| (process, home)));
        }
        Ok(())
    }

    /// Gives the CPUs back, and checks that the kernel admits as much as before.
    ///
    /// # Errors
    /// [`PartitionError::StillReserved`] leaves the partition as it is;
    /// [`PartitionError::AccountWrong`], or the kernel's error.
    pub fn remove(&mut self) -> Result<(), PartitionError> {
        let still = |thread: &crate::thread::Tid| {
            let class = crate::sched::get(*thread);
            class.is_ok_and(|now| now.policy_name() == "SCHED_DEADLINE")
        };
        let threads = self.group.as_ref().map(Group::threads).unwrap_or_default();
        match threads.into_iter().find(still) {
            Some(thread) => Err(PartitionError::StillReserved { thread }),
            None => self.take_down(),
        }
    }

    fn take_down(&mut self) -> Result<(), PartitionError> {
        let Some(group) = self.group.take() else { return Ok(()) };
        let root = group.home().to_owned();
        let mut put_back = Ok(());
        if self.v1 {
            // Threads may have been added one by one.
            for thread in group.threads() {
                let _ = write(&root, "tasks", &thread.to_string());
            }
        } else {
            let members = group.members();
            for (id, home) in self.homes.drain(..).filter(|(id, _)| members.contains(id)) {
                let outcome = write(&home, "cgroup.procs", &id.to_string());
                // If the former group is gone or the process has ended, the root takes what is
                // left.
                if home.is_dir() && group.members().contains(&id) {
                    put_back = outcome;
                }
            }
            let _ = group.write("cpuset.cpus.partition", "member");
        }
        let removed = group.remove();
        let toggle = root.join("cpuset.sched_load_balance");
        if self.v1 && self.balanced {
            // Even if the group could not be removed: without balancing all CPUs of the host are
            // worse off.
            write(&root, "cpuset.sched_load_balance", "1")?;
        }
        removed?;
        put_back?;
        // A thread's bandwidth lingers until its deadline, so look more than once.
        let mut after_ppm = 0;
        for attempt in 0..20 {
            after_ppm = bandwidth::left()?.left_ppm;
            if after_ppm + SWAY_PPM >= self.before_ppm {
                return Ok(());
            }
            if attempt == 10 && self.v1 && self.balanced {
                write(&root, "cpuset.sched_load_balance", "0")?;
                write(&root, "cpuset.sched_load_balance", "1")?;
            }
            crate::clock::sleep(punctual_model::time::Duration::from_millis(10));
        }
        Err(PartitionError::AccountWrong { before_ppm: self.before_ppm, after_ppm, toggle })
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        let _ = self.take_down();
    }
}

fn has_cpuset(root: &Path) -> bool {
    let text = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    text.split_whitespace().any(|name| name == "cpuset")
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), CgroupError> {
    let path = folder.join(name);
    super::write(&path, text).map_err(CgroupError::file("writing", path))
}
