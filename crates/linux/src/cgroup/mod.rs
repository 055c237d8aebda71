//! Control groups (cgroups(7)): where the hierarchies are, and groups of our own in them.
//!
//! - [`Group`]: a group that is removed when it is dropped, its members back in its parent.
//! - [`freezer`]: stops and continues all members of a group.
//! - [`partition`]: CPUs set apart.
//! - `mounts`: where the kernel shows the hierarchies.

pub mod freezer;
mod ids;
mod meter;
mod mounts;
pub mod partition;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use punctual_model::time::Duration;
use thiserror::Error;

use ids::ids;
pub use ids::{IdList, Ids};
pub use meter::{Meter, parse_usage};
pub use mounts::{Hierarchy, parse_group};

use crate::clock;
use crate::host::has_cap_sys_nice;
use crate::thread::Tid;

/// Why a group cannot be used, as a sentence that says what would help.
#[derive(Debug, Error)]
pub enum CgroupError {
    /// No hierarchy with the feature is mounted.
    #[error(
        "{feature} is not there: no control group hierarchy that has it is mounted ({tried}); mount \
         one (mount -t cgroup2 none /sys/fs/cgroup) or use a kernel built with CONFIG_CGROUPS"
    )]
    NotMounted {
        /// What was wanted.
        feature: &'static str,
        /// Where it was looked for.
        tried: &'static str,
    },
    /// A file of the group could not be used.
    #[error("{doing} {}: {error}{}", path.display(), hint(error))]
    File {
        /// What was attempted.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Of the system call.
        error: io::Error,
    },
    /// The kernel took it and it has no effect.
    #[error("{feature} was asked for and did not happen: {} said {found:?}", path.display())]
    NoEffect {
        /// What was wanted.
        feature: &'static str,
        /// The file looked at.
        path: PathBuf,
        /// What it said.
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

/// How long the kernel may take to let go of members that have ended or moved.
const LETTING_GO: Duration = Duration::from_secs(2);

static NEXT: AtomicU32 = AtomicU32::new(0);

/// What all names of our groups begin with.
const PREFIX: &str = "punctual-";

/// A control group of our own. Dropping it moves its members to its parent and removes it.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    parent: PathBuf,
    /// Members are threads, not processes.
    threaded: bool,
    /// `tasks` instead of `cgroup.threads`.
    v1: bool,
}

impl Group {
    /// Makes one inside `parent`. Its name tells whose it is: [`sweep`] removes it once that process
    /// has ended.
    pub fn make(parent: &Path, v1: bool) -> Result<Self, CgroupError> {
        let me = std::process::id();
        let began = began(me).unwrap_or(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{PREFIX}{me}-{began}-{n}"));
        fs::create_dir(&path).map_err(CgroupError::file("making the group", &path))?;
        Ok(Self { path, parent: parent.to_owned(), threaded: false, v1 })
    }

    /// The same for single threads of a process (cgroups(7), thread mode, in version 2).
    pub fn make_threaded(parent: &Path, v1: bool) -> Result<Self, CgroupError> {
        let mut group = Self::make(parent, v1)?;
        if !v1 {
            group.write("cgroup.type", "threaded")?;
        }
        group.threaded = true;
        Ok(group)
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whose member its members were.
    pub fn parent(&self) -> &Path {
        &self.parent
    }

    /// The file that lists the threads in it.
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

    /// Whether its members are single threads.
    pub fn is_threaded(&self) -> bool {
        self.threaded
    }

    /// Moves a process with all its threads in; what they make later is in it too. For a threaded
    /// group: one thread.
    pub fn add(&self, id: i32) -> Result<(), CgroupError> {
        self.write(self.members_name(), &id.to_string())
    }

    /// The ids of its members: processes, or threads of a threaded one.
    pub fn members(&self) -> Vec<i32> {
        ids(&self.path.join(self.members_name()))
    }

    /// The threads in it.
    pub fn threads(&self) -> Vec<Tid> {
        ids(&self.threads_file()).into_iter().filter_map(Tid::from_raw).collect()
    }

    /// Processor time of its members, also those that have ended; none in version 1.
    pub fn used(&self) -> Option<punctual_model::time::Service> {
        parse_usage(&fs::read(self.path.join("cpu.stat")).ok()?)
    }

    /// The same read again and again, for the hot path; none in version 1.
    pub fn meter(&self) -> Option<Meter> {
        Meter::open(&self.path)
    }

    /// Writes one of its files.
    pub fn write(&self, name: &str, text: &str) -> Result<(), CgroupError> {
        let path = self.path.join(name);
        write(&path, text).map_err(CgroupError::file("writing", path))
    }

    /// Moves all members to the parent and removes the group. Members that are made meanwhile are
    /// moved too.
    pub fn remove(self) -> Result<(), CgroupError> {
        let outcome = self.dissolve();
        std::mem::forget(self);
        outcome
    }

    /// As [`remove`](Self::remove), for one that others still refer to: they will find it gone.
    pub fn dissolve(&self) -> Result<(), CgroupError> {
        let until = clock::now() + LETTING_GO;
        loop {
            for id in self.members() {
                // One that has ended since is gone from the group as well.
                let _ = write(&self.parent.join(self.members_name()), &id.to_string());
            }
            match fs::remove_dir(&self.path) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                // No wait gives a right.
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
        // Whatever is left is found by name at the next start.
        let _ = self.dissolve();
    }
}

/// Removes groups in `parent` that processes left which are gone. `release` is told of each before
/// its members move to `parent`. How many there were.
pub fn sweep(parent: &Path, v1: bool, mut release: impl FnMut(&Group)) -> usize {
    let Ok(entries) = fs::read_dir(parent) else { return 0 };
    let stale = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let mut parts = name.to_str()?.strip_prefix(PREFIX)?.splitn(3, '-');
        let pid: u32 = parts.next()?.parse().ok()?;
        let since: u64 = parts.next()?.parse().ok()?;
        (began(pid) != Some(since)).then(|| entry.path())
    };
    let mut swept = 0;
    for path in entries.flatten().filter_map(stale) {
        let threaded = fs::read_to_string(path.join("cgroup.type"))
            .map_or(v1, |kind| kind.trim() == "threaded");
        let group = Group { path, parent: parent.to_owned(), threaded, v1 };
        release(&group);
        swept += usize::from(group.remove().is_ok());
    }
    swept
}

/// When a process began, in ticks since boot: with its id that names it for good
/// (proc_pid_stat(5), field 22).
fn began(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    File::options().write(true).open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests;
