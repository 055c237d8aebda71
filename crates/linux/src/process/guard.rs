//! A small process that undoes our changes to other processes if we die or are stopped.
//!
//! A dispatcher that is killed leaves the threads that it last raised at a real-time priority, and
//! the groups that it froze frozen, for good. The guard is forked at the start, is no process's
//! child, and waits at the end of a pipe whose other end only we hold. When that end closes, the
//! guard thaws all groups, lowers their members, lets them use all CPUs (it does not know which
//! they had), moves them to their parent group and removes the groups. If we are merely stopped
//! (SIGSTOP), it sees that a dispatcher is overdue, thaws and lowers all members, and counts that,
//! so that every dispatcher knows that it has to freeze and raise again ([`Guard::acted`]).
//!
//! The guard is forked, without exec, from a program that may have threads. So it makes nothing but
//! system calls: no allocation, no lock, no formatted text (fork(2)). Its input lies in memory that
//! it shares with us.
//!
//! If the guard dies, too, the next start finds the groups by name ([`crate::cgroup::sweep`]).
#![allow(unsafe_code)]

mod putting_back;

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use punctual_model::time::{Duration, Instant};
use rustix::mm::MapFlags;

use crate::mapping::Mapping;

/// The most groups that one guard watches.
const MOST: usize = 64;

/// The longest path of a group, with the name of one of its files.
const LONGEST: usize = 480;

/// The most CPUs: the size of a `cpu_set_t`.
const CPUS: usize = 1024;

const FREE: u32 = 0;
const FILLING: u32 = 1;
const SET: u32 = 2;

/// How long the dispatcher may be overdue. It is longer than any pause that a usable hypervisor
/// makes, and short for a person waiting for a frozen program.
const OVERDUE: Duration = Duration::from_secs(1);

/// One group, as shared by both processes.
#[repr(C)]
struct Entry {
    state: AtomicU32,
    v1: AtomicU32,
    threaded: AtomicU32,
    length: AtomicU32,
    path: [AtomicU8; LONGEST],
}

/// The memory that both processes share. All zeroes means empty.
#[repr(C)]
struct Table {
    /// The number of times that the guard released all groups because a dispatcher was overdue.
    acted: AtomicU32,
    /// By CPU: the time by which its dispatcher will be back, in nanoseconds; zero if none works.
    due: [AtomicU64; CPUS],
    entries: [Entry; MOST],
}

/// The memory that the guard shares with us.
struct SharedTable(Mapping);

impl SharedTable {
    fn new() -> io::Result<Self> {
        Ok(Self(Mapping::anonymous(size_of::<Table>(), MapFlags::SHARED)?))
    }

    fn table(&self) -> &Table {
        // SAFETY: the table is mapped for as long as `self`, page-aligned, and zeroed by the
        // kernel, which is a valid `Table`. It holds only atomics, so the guard may write to it at
        // any time.
        unsafe { self.0.start().cast().as_ref() }
    }
}

/// The guard, as seen by the guarded process. Dropping it makes the guard undo what is left, and
/// end.
pub struct Guard {
    shared: SharedTable,
    /// Held only so that its closing wakes the guard.
    _alive: OwnedFd,
}

impl Guard {
    /// Forks the guard, twice, so that it is not our child: it need not be waited for, and its end
    /// sends no signal.
    pub fn start() -> io::Result<Self> {
        let shared = SharedTable::new()?;
        let (end, alive) = pipe()?;
        // SAFETY: the child calls only `settle`, which makes only system calls.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => putting_back::settle(end.as_raw_fd(), shared.table()),
            child => {
                let mut status = 0;
                // SAFETY: `child` is our own child, which ends at once; `status` is valid for
                // writes.
                while unsafe { libc::waitpid(child, &raw mut status, 0) } == -1
                    && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
                {
                }
                if status != 0 {
                    return Err(io::Error::other("the guard could not be forked"));
                }
                Ok(Self { shared, _alive: alive })
            }
        }
    }

    /// Puts a group under guard, before anything is done to its members. Returns its place, for
    /// [`forget`](Self::forget).
    ///
    /// # Errors
    /// If there are 64 groups already, or the path is too long.
    pub fn watch(&self, group: &Path, v1: bool, threaded: bool) -> io::Result<usize> {
        let bytes = group.as_os_str().as_bytes();
        // Leaves room for the longest file name and the terminating zero.
        if bytes.len() + 32 > LONGEST {
            return Err(io::Error::other("the path of the group is too long for the guard"));
        }
        let entries = &self.shared.table().entries;
        let take = |entry: &Entry| {
            let (old, new) = (Ordering::Acquire, Ordering::Relaxed);
            entry.state.compare_exchange(FREE, FILLING, old, new).is_ok()
        };
        let at = entries.iter().position(take);
        let at = at.ok_or_else(|| io::Error::other("the guard looks after 64 groups already"))?;
        let entry = &entries[at];
        for (to, from) in entry.path.iter().zip(bytes) {
            to.store(*from, Ordering::Relaxed);
        }
        entry.v1.store(v1.into(), Ordering::Relaxed);
        entry.threaded.store(threaded.into(), Ordering::Relaxed);
        entry.length.store(bytes.len() as u32, Ordering::Relaxed);
        entry.state.store(SET, Ordering::Release);
        Ok(at)
    }

    /// Stops guarding the group at this place, which has been removed or restored.
    pub fn forget(&self, place: usize) {
        if let Some(entry) = self.shared.table().entries.get(place) {
            entry.state.store(FREE, Ordering::Release);
        }
    }

    /// Records that the dispatcher of `cpu` will be back by `due`; one store. [`Instant::MAX`]
    /// means that nothing is raised or frozen until a request comes.
    pub fn due(&self, cpu: usize, due: Instant) {
        if let Some(of_cpu) = self.shared.table().due.get(cpu) {
            of_cpu.store(due.as_nanos(), Ordering::Release);
        }
    }

    /// Returns the number of times, modulo 2³², that the guard has released all groups because some
    /// dispatcher was overdue; one load. A dispatcher that sees it change must freeze and raise its
    /// groups again, even if it was not late itself: the guard releases all groups together.
    ///
    /// ```
    /// # fn example(guard: &punctual_linux::process::Guard) {
    /// let seen = guard.acted();
    /// // … later, before anything is taken for frozen or raised:
    /// if guard.acted() != seen {
    ///     // Everything is thawed and at an ordinary priority.
    /// }
    /// # }
    /// ```
    pub fn acted(&self) -> u32 {
        self.shared.table().acted.load(Ordering::Acquire)
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` is valid for writes of the two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: pipe2(2) has just opened both, and nothing else owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}
