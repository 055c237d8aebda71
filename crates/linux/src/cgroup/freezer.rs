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

use std::fs::{File, Metadata};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use punctual_model::time::Duration;
use rustix::io::Errno;

use super::{CgroupError, Group, Hierarchy, IdList, PREFIX, sweep};
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

    /// Makes a group for `pid`, a process of user `uid`, out of which that user cannot move it: in the
    /// deepest group above it that the user may not write to, and nor to any above that. Its limits
    /// and accounting still apply from there on. Moves `pid` there with all its threads, and back
    /// when the group is removed.
    pub fn out_of_reach(pid: i32, uid: u32) -> Result<Self, CgroupError> {
        let freezer = Self::somewhere(pid, |hierarchy, group| {
            let below = group_out_of_reach(&hierarchy.root(), group, uid)?;
            let mut freezer = Self::make(&below, hierarchy.is_v1(), false)?;
            freezer.group.set_home(group);
            Ok(freezer)
        })?;
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

    /// Makes an empty group of version 2 below `parent`, whose members return to the home of `parent`.
    pub fn below(parent: &Group) -> Result<Self, CgroupError> {
        let mut freezer = Self::make(parent.path(), false, false)?;
        freezer.group.set_home(parent.home());
        Ok(freezer)
    }

    fn inside(pid: i32, threaded: bool) -> Result<Self, CgroupError> {
        Self::somewhere(pid, |hierarchy, group| Self::make(group, hierarchy.is_v1(), threaded))
    }

    /// Makes one with `make` in the first hierarchy that can freeze, given the group of `pid` there.
    fn somewhere(
        pid: i32,
        make: impl Fn(&Hierarchy, &Path) -> Result<Self, CgroupError>,
    ) -> Result<Self, CgroupError> {
        let none = CgroupError::NotMounted {
            feature: "freezing a group of processes",
            tried: "cgroup.freeze of version 2, freezer.state of version 1",
        };
        let mut refused = none;
        for hierarchy in [Hierarchy::v2(), Hierarchy::v1("freezer")].into_iter().flatten() {
            let Some(group) = hierarchy.group_of(pid) else { continue };
            match make(&hierarchy, &group) {
                Ok(freezer) => return Ok(freezer),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    fn make(parent: &Path, v1: bool, threaded: bool) -> Result<Self, CgroupError> {
        sweep_in(parent, v1);
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

/// Removes groups in `parent` whose processes have ended, with those below them, and lets their members
/// go on as ordinary ones.
pub(super) fn sweep_in(parent: &Path, v1: bool) {
    sweep(parent, v1, |stale| {
        sweep_in(stale.path(), v1);
        let _ = thaw(stale, v1);
        for thread in stale.threads() {
            let _ = process::lower(thread);
        }
    });
}

/// Returns the deepest group from `root` towards `group` such that user `uid` may move no process out
/// of it, or out of any above it. Moving one from one group of version 2 to another takes writing to
/// the common ancestor (cgroups(7), "Delegation containment"). Groups of our own are left out, because
/// they are removed.
fn group_out_of_reach(root: &Path, group: &Path, uid: u32) -> Result<PathBuf, CgroupError> {
    let may_write = |group: &Path| {
        uid != 0
            && [group.to_owned(), group.join("cgroup.procs")].iter().any(|path| {
                let of = |found: Metadata| found.uid() == uid || found.mode() & 0o022 != 0;
                // One that cannot be seen is not trusted.
                std::fs::metadata(path).map_or(true, of)
            })
    };
    if may_write(root) {
        return Err(CgroupError::WithinReach { uid, path: root.to_owned() });
    }
    let mut deepest = root.to_owned();
    for part in group.strip_prefix(root).into_iter().flatten() {
        let next = deepest.join(part);
        if part.as_bytes().starts_with(PREFIX.as_bytes()) || may_write(&next) {
            break;
        }
        deepest = next;
    }
    Ok(deepest)
}

fn name(v1: bool) -> &'static str {
    if v1 { "freezer.state" } else { "cgroup.freeze" }
}

fn thaw(group: &Group, v1: bool) -> Result<(), CgroupError> {
    group.write(name(v1), if v1 { "THAWED" } else { "0" })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_user_cannot_write_to_the_group_or_to_any_above_it() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        let of_user = root.join("user.slice/user-7.slice");
        let own = of_user.join("user@7.service/app.scope");
        fs::create_dir_all(&own).expect("ours");
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
        };
        for group in own.ancestors().take_while(|group| group.starts_with(root)) {
            fs::write(group.join("cgroup.procs"), "").expect("ours");
            mode(group, 0o755);
            mode(&group.join("cgroup.procs"), 0o644);
        }
        // These files are the tester's own; to another user they are as root's.
        let uid = rustix::process::geteuid().as_raw() + 7;
        let found = |group: &Path| group_out_of_reach(root, group, uid);
        assert_eq!(found(&own).expect("out of reach"), own);
        mode(&own.parent().expect("it has one").join("cgroup.procs"), 0o666);
        assert_eq!(found(&own).expect("out of reach"), of_user);
        let nested = of_user.join(format!("{PREFIX}7-7-7"));
        fs::create_dir(&nested).expect("ours");
        fs::write(nested.join("cgroup.procs"), "").expect("ours");
        assert_eq!(found(&nested).expect("out of reach"), of_user, "ours are removed");
        mode(root, 0o777);
        assert!(matches!(found(&own), Err(CgroupError::WithinReach { .. })));
        assert_eq!(group_out_of_reach(root, &own, 0).expect("root's own"), own);
    }
}
