//! Control groups (cgroups(7)): the mounted hierarchies, and groups of our own in them.
//!
//! - [`Group`]: a group that moves its members back to its parent and is removed when it is
//!   dropped; with a [`Meter`] of its members' processor time, and the ids of its members as the
//!   kernel lists them, one a line.
//! - [`group_clock`]: the time of a group on one CPU, with an alarm.
//! - [`freezer`]: stops and continues all members of a group.
//! - [`partition`]: CPUs set apart.
//! - [`memory`]: memory that a group keeps.
//! - `mounts`: the mount points of the hierarchies.

pub mod freezer;
pub mod group_clock;
pub mod memory;
mod mounts;
pub mod partition;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

use punctual_model::time::{Duration, Service};
use thiserror::Error;

use crate::clock;
use crate::host::has_cap_sys_nice;
use crate::thread::Tid;

pub use mounts::{Hierarchy, parse_group};

/// How long the kernel may take to release members that have ended or moved.
const LETTING_GO: Duration = Duration::from_secs(2);

/// How long a group that an earlier process left may take.
const SWEEPING: Duration = Duration::from_millis(20);

static NEXT: AtomicU32 = AtomicU32::new(0);

/// The prefix of the names of all our groups.
const PREFIX: &str = "punctual-";

/// The reason a group cannot be used, as a sentence that says what would help.
#[derive(Debug, Error)]
pub enum CgroupError {
    /// No hierarchy with the feature is mounted.
    #[error(
        "{feature} is not there: no control group hierarchy that has it is mounted ({tried}); mount \
         one (mount -t cgroup2 none /sys/fs/cgroup) or use a kernel built with CONFIG_CGROUPS"
    )]
    NotMounted {
        /// The missing feature.
        feature: &'static str,
        /// The controllers or files that were looked for.
        tried: &'static str,
    },
    /// An ordinary user could take its processes out of every group.
    #[error(
        "user {uid} may move processes out of {}, and so out of every group below it; run them below \
         a group that is root's (systemd: a user's slice is)", path.display()
    )]
    WithinReach {
        /// The user.
        uid: u32,
        /// The highest group.
        path: PathBuf,
    },
    /// Version 2 keeps no memory for groups below its root.
    #[error("no memory can be kept for a program: {} {why}; {remedy}", root.display())]
    NoMemory {
        /// The root of version 2.
        root: PathBuf,
        /// The reason, as the rest of a clause about the root.
        why: &'static str,
        /// The change that would help.
        remedy: &'static str,
    },
    /// A file of the group could not be used.
    #[error("{doing} {}: {error}{}", path.display(), hint(error))]
    File {
        /// The operation that failed.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system call's error.
        error: io::Error,
    },
    /// The kernel accepted the request, and it had no effect.
    #[error("{feature} was asked for and did not happen: {} said {found:?}", path.display())]
    NoEffect {
        /// The requested feature.
        feature: &'static str,
        /// The file that shows the state.
        path: PathBuf,
        /// Its content.
        found: String,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied if !has_cap_sys_nice() => {
            "; run as root, or have the group delegated to this user (systemd: Delegate=yes)"
        }
        io::ErrorKind::ReadOnlyFilesystem => "; the hierarchy is mounted read-only (a container?)",
        // cgroups(7), "Cgroups v2 thread mode"; the root is exempt.
        _ if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            "; below one group version 2 holds single threads or whole processes, not both: start one \
             of the two in a group of its own (systemd-run --scope)"
        }
        _ => "",
    }
}

impl CgroupError {
    fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { doing, path, error }
    }
}

/// A control group of our own. Dropping it moves its members back and removes it.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    /// The group to which the members return.
    home: PathBuf,
    /// The members are threads, not processes.
    threaded: bool,
    /// The group is of version 1: its threads are in `tasks` instead of `cgroup.threads`.
    v1: bool,
}

impl Group {
    /// Makes a group inside `parent`. Its name identifies the calling process, so that [`sweep`]
    /// removes it once that process has ended.
    pub fn make(parent: &Path, v1: bool) -> Result<Self, CgroupError> {
        let me = std::process::id();
        let began = began(me).unwrap_or(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{PREFIX}{me}-{began}-{n}"));
        fs::create_dir(&path).map_err(CgroupError::file("making the group", &path))?;
        Ok(Self { path, home: parent.to_owned(), threaded: false, v1 })
    }

    /// Makes a group for single threads of a process (in version 2: cgroups(7), thread mode).
    pub fn make_threaded(parent: &Path, v1: bool) -> Result<Self, CgroupError> {
        let mut group = Self::make(parent, v1)?;
        if !v1 {
            group.write("cgroup.type", "threaded")?;
        }
        group.threaded = true;
        Ok(group)
    }

    /// Returns the group's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory of the group to which the members return: the parent, unless
    /// [`set_home`](Self::set_home) has set another.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Has the members return to `home`.
    pub fn set_home(&mut self, home: &Path) {
        home.clone_into(&mut self.home);
    }

    /// Returns the path of the file that lists the group's threads.
    pub fn threads_file(&self) -> PathBuf {
        self.path.join(if self.v1 { "tasks" } else { "cgroup.threads" })
    }

    fn members_name(&self) -> &'static str {
        match (self.threaded, self.v1) {
            (false, _) => "cgroup.procs",
            (true, true) => "tasks",
            (true, false) => "cgroup.threads",
        }
    }

    /// Returns true if the members are single threads.
    pub fn is_threaded(&self) -> bool {
        self.threaded
    }

    /// Moves a process with all its threads into the group; what they start later is in it, too. In
    /// a threaded group, moves one thread.
    pub fn add(&self, id: i32) -> Result<(), CgroupError> {
        self.write(self.members_name(), &id.to_string())
    }

    /// Returns the ids of the members: processes, or threads in a threaded group.
    pub fn members(&self) -> Vec<i32> {
        ids(&self.path.join(self.members_name()))
    }

    /// Returns the threads in the group.
    pub fn threads(&self) -> Vec<Tid> {
        ids(&self.threads_file()).into_iter().filter_map(Tid::from_raw).collect()
    }

    /// Returns the processor time of the members, including those that have ended; `None` in
    /// version 1.
    pub fn used(&self) -> Option<punctual_model::time::Service> {
        parse_usage(&fs::read(self.path.join("cpu.stat")).ok()?)
    }

    /// Returns a meter that reads the same repeatedly, for the hot path; `None` in version 1.
    pub fn meter(&self) -> Option<Meter> {
        Meter::open(&self.path)
    }

    /// Writes `text` to the group's file `name`.
    pub fn write(&self, name: &str, text: &str) -> Result<(), CgroupError> {
        let path = self.path.join(name);
        write(&path, text).map_err(CgroupError::file("writing", path))
    }

    /// Moves all members back, including those that start meanwhile, and removes the group.
    pub fn remove(self) -> Result<(), CgroupError> {
        let outcome = self.dissolve_within(LETTING_GO);
        std::mem::forget(self);
        outcome
    }

    /// Does what [`remove`](Self::remove) does for a group that is still borrowed elsewhere: later
    /// uses find it gone.
    pub fn dissolve(&self) -> Result<(), CgroupError> {
        self.dissolve_within(LETTING_GO)
    }

    fn dissolve_within(&self, patience: Duration) -> Result<(), CgroupError> {
        let until = clock::now() + patience;
        loop {
            for id in self.members() {
                let to = |group: &Path| write(&group.join(self.members_name()), &id.to_string());
                // A member that has ended has left the group as well. The home may be gone meanwhile,
                // because it is not ours.
                if let (Err(_), Some(parent)) = (to(&self.home), self.path.parent()) {
                    let _ = to(parent);
                }
            }
            match fs::remove_dir(&self.path) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                // Waiting does not grant a missing right.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                    ) =>
                {
                    return Err(CgroupError::file("removing the group", &self.path)(error));
                }
                Err(_) if clock::now() < until => clock::sleep(Duration::from_millis(1)),
                Err(error) => {
                    return Err(CgroupError::file("removing the group", &self.path)(error));
                }
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // `sweep` finds the rest by name at the next start.
        let _ = self.dissolve();
    }
}

/// Removes groups in `parent` whose processes have ended. Calls `release` with each before its
/// members move to `parent`. A group whose members may not move there stays, and does no harm.
/// Returns how many it removed.
pub fn sweep(parent: &Path, v1: bool, mut release: impl FnMut(&Group)) -> usize {
    let Ok(entries) = fs::read_dir(parent) else { return 0 };
    let mut swept = 0;
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| is_stale(path)) {
        let threaded = fs::read_to_string(path.join("cgroup.type"))
            .map_or(v1, |kind| kind.trim() == "threaded");
        let group = Group { path, home: parent.to_owned(), threaded, v1 };
        release(&group);
        swept += usize::from(group.dissolve_within(SWEEPING).is_ok());
        std::mem::forget(group);
    }
    swept
}

/// Returns whether a group has the name of one of ours ([`Group::make`]) whose process has ended.
fn is_stale(group: &Path) -> bool {
    let made_by = || {
        let mut parts = group.file_name()?.to_str()?.strip_prefix(PREFIX)?.splitn(3, '-');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    };
    made_by().is_some_and(|(pid, since)| began(pid) != Some(since))
}

/// Returns the start time of a process in ticks since boot (proc_pid_stat(5), field 22). Together
/// with the id it identifies the process for good.
fn began(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    File::options().write(true).open(path)?.write_all(text.as_bytes())
}

/// The processor time of a group's members, including those that have ended.
#[derive(Debug)]
pub struct Meter {
    file: File,
}

impl Meter {
    /// Opens the meter of the group with this directory; `None` in version 1.
    fn open(group: &Path) -> Option<Self> {
        let meter = Self { file: File::open(group.join("cpu.stat")).ok()? };
        meter.read().map(|_| meter)
    }

    /// Returns the processor time, to a microsecond. What a thread on another CPU uses right now
    /// counts only from its next tick or switch. Allocates nothing.
    pub fn read(&self) -> Option<Service> {
        let mut text = [0; 64];
        let read = self.file.read_at(&mut text, 0).ok()?;
        parse_usage(text.get(..read)?)
    }
}

/// Parses the first line of cpu.stat, which is always there according to its documentation
/// (cgroup-v2.rst). Allocates nothing.
pub fn parse_usage(stat: &[u8]) -> Option<Service> {
    let number = stat.strip_prefix(b"usage_usec ")?.split(|&byte| byte == b'\n').next()?;
    let micros: u64 = str::from_utf8(number).ok()?.trim_ascii_end().parse().ok()?;
    micros.checked_mul(1_000).map(Service::from_nanos)
}

fn ids(path: &Path) -> Vec<i32> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// A list of ids that can be read repeatedly without allocation.
#[derive(Debug)]
pub struct IdList {
    file: File,
}

impl IdList {
    /// Opens a file such as [`Group::threads_file`].
    pub fn open(path: &Path) -> Result<Self, CgroupError> {
        let file = File::open(path).map_err(CgroupError::file("opening", path))?;
        Ok(Self { file })
    }

    /// Reads the list into `buffer` and passes the ids one by one. If `buffer` is too small for
    /// all, further calls of read(2) follow; no id is lost.
    pub fn each(&self, buffer: &mut [u8], mut with: impl FnMut(Tid)) -> io::Result<()> {
        rustix::fs::seek(self.file.as_fd(), rustix::fs::SeekFrom::Start(0))?;
        let mut file = &self.file;
        let mut ids = Ids::default();
        loop {
            let read = file.read(buffer)?;
            if read == 0 {
                return Ok(());
            }
            ids.take(&buffer[..read], &mut with);
        }
    }
}

/// A parser of such a list in pieces of any length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ids {
    /// The number that the digits of the current line give so far; `None` if it is too large or
    /// there is none yet.
    id: Option<i32>,
    is_other: bool,
}

impl Ids {
    /// Passes the ids of the lines that end in `piece`. Skips lines that are not an id.
    pub fn take(&mut self, piece: &[u8], mut with: impl FnMut(Tid)) {
        for byte in piece {
            match byte {
                b'0'..=b'9' => {
                    let digit = i32::from(byte - b'0');
                    let id = self.id.unwrap_or(0).checked_mul(10);
                    self.id = id.and_then(|id| id.checked_add(digit));
                    self.is_other |= self.id.is_none();
                }
                b'\n' => {
                    let Self { id, is_other } = std::mem::take(self);
                    if let Some(tid) = id.filter(|_| !is_other).and_then(Tid::from_raw) {
                        with(tid);
                    }
                }
                _ => self.is_other = true,
            }
        }
    }
}
