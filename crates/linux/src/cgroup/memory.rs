//! Memory that the kernel takes from no group member, whatever all others need.
//!
//! The kernel reclaims nothing from a group that uses no more than its `memory.min`, and swaps none of it
//! with a `memory.swap.max` of zero (cgroup-v2.rst). It keeps the least of what a group and those above
//! it declare, so a [`Kept`] is a group directly below the root, which has no such limit.
//!
//! mlockall(2) is no alternative: a program does not inherit the locks of the process that starts it.

use std::fs;
use std::path::Path;

use punctual_model::units::Bytes;

use super::{CgroupError, Group, Hierarchy, freezer, is_stale};
use crate::{host, procfs};

/// A group whose members keep so much memory together, with those of all groups below it. Dropping it
/// ends that; groups below it must be gone by then.
#[derive(Debug)]
pub struct Kept(Group);

/// The use of memory since a group was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// The most that was used at once; `None` before Linux 5.19.
    pub peak: Option<Bytes>,
    /// The page faults that waited for a disk, the first use of a page included.
    pub major_faults: u64,
    /// The pages that were taken from the group, and that it used again.
    pub refaults: u64,
}

impl Kept {
    /// Makes the group. When it is dropped, its members go to the group of this process.
    ///
    /// # Errors
    /// A [`CgroupError`] that says what this host lacks.
    pub fn new(memory: Bytes) -> Result<Self, CgroupError> {
        let version2 = Hierarchy::v2().ok_or(CgroupError::NotMounted {
            feature: "keeping a program's memory",
            tried: "memory.min of version 2",
        })?;
        let root = version2.root();
        let lacks = |why, remedy| CgroupError::NoMemory { root: root.clone(), why, remedy };
        let lists = |file| {
            let text = procfs::trimmed(root.join(file)).unwrap_or_default();
            text.split_whitespace().any(|controller| controller == "memory")
        };
        if !lists("cgroup.controllers") {
            return Err(lacks(
                "has no controller \"memory\" (that of version 1 protects nothing)",
                "boot with cgroup_no_v1=memory (systemd: systemd.unified_cgroup_hierarchy=1)",
            ));
        }
        // The root of all has no such file.
        if root.join("memory.min").exists() {
            return Err(lacks(
                "is not the root of all control groups, and those above it decide what is kept",
                "run outside of the container",
            ));
        }
        if !lists("cgroup.subtree_control") {
            return Err(lacks(
                "does not give the controller \"memory\" to its groups, as systemd has it do at boot",
                "echo +memory >cgroup.subtree_control there",
            ));
        }
        freezer::sweep_in(&root, false);
        let mut group = Group::make(&root, false)?;
        let me = i32::try_from(std::process::id()).unwrap_or(0);
        version2.group_of(me).iter().for_each(|own| group.set_home(own));
        group.write("memory.min", &memory.0.to_string())?;
        match group.write("memory.swap.max", "0") {
            // A kernel without swap has no such file.
            Err(_) if host::machine().swap_bytes == Some(0) => {}
            written => written?,
        }
        Ok(Self(group))
    }

    /// Returns the group.
    pub fn group(&self) -> &Group {
        &self.0
    }

    /// Returns the use so far, or `None` if it cannot be read: the group was removed.
    pub fn used(&self) -> Option<MemoryUse> {
        let stat = fs::read_to_string(self.0.path().join("memory.stat")).ok()?;
        let sum = |names: &[&str]| {
            let lines = stat.lines().filter_map(|line| line.split_once(' '));
            let numbers = lines.filter(|(name, _)| names.contains(name));
            numbers.filter_map(|(_, number)| number.parse::<u64>().ok()).sum()
        };
        Some(MemoryUse {
            peak: procfs::number(self.0.path().join("memory.peak")).map(Bytes),
            major_faults: sum(&["pgmajfault"]),
            refaults: sum(&["workingset_refault_anon", "workingset_refault_file"]),
        })
    }
}

/// Returns the memory of this host that groups below the root of version 2 keep already, without those
/// that an ended process of ours left: the next [`Kept`] removes them.
pub fn kept_by_all() -> Bytes {
    let of = |root: &Path| {
        let groups = fs::read_dir(root).into_iter().flatten().flatten().map(|group| group.path());
        let kept = groups.filter(|group| !is_stale(group));
        let kept = kept.filter_map(|group| procfs::number(group.join("memory.min")));
        kept.fold(0, u64::saturating_add)
    };
    Bytes(Hierarchy::v2().map_or(0, |version2| of(&version2.root())))
}
