//! A small process that puts back what we did to others, should we die or be stopped.
//!
//! A dispatcher that is killed leaves the threads it last raised at a real-time priority, and the
//! groups it froze frozen: for ever. The guard is forked at the start, belongs to nobody, and waits
//! at the end of a pipe whose other end only we hold. When that closes it thaws, lowers, lets the
//! members use all CPUs (it does not know which they had), moves them to where they came from and removes the groups. If we
//! are merely stopped (SIGSTOP) it sees that a dispatcher is overdue, thaws and lowers everybody, and
//! counts that, so that every dispatcher knows that it has to take back ([`Guard::acted`]).
//!
//! It is a child without exec of a program that may have threads, so it makes nothing but system
//! calls: no allocation, no lock, no formatted text (fork(2)). What it has to know lies in memory that
//! it shares with us.
//!
//! Two deaths at once are not covered: then the next start finds the groups by name
//! ([`crate::cgroup::sweep`]).
#![allow(unsafe_code)]

mod putting_back;

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use punctual_model::time::{Duration, Instant};
use rustix::mm::{MapFlags, ProtFlags};

/// The most groups that one guard looks after.
const MOST: usize = 64;

/// The longest path of a group, with a name of one of its files.
const LONGEST: usize = 480;

/// The most CPUs: as many as a `cpu_set_t` has.
const CPUS: usize = 1024;

const FREE: u32 = 0;
const FILLING: u32 = 1;
const SET: u32 = 2;

/// How long the dispatcher may be overdue. Beyond any hypervisor's pauses that still make sense, and
/// short for a person who waits for a frozen program.
const OVERDUE: Duration = Duration::from_secs(1);

/// One group, as both see it.
#[repr(C)]
struct Entry {
    state: AtomicU32,
    v1: AtomicU32,
    threaded: AtomicU32,
    length: AtomicU32,
    path: [AtomicU8; LONGEST],
}

/// What both see. All zeroes is empty.
#[repr(C)]
struct Table {
    /// How often the guard let go of everybody because a dispatcher was overdue.
    acted: AtomicU32,
    /// By CPU: its dispatcher is back by then, in nanoseconds; zero: none is at work.
    due: [AtomicU64; CPUS],
    entries: [Entry; MOST],
}

/// Memory that the guard shares with us.
struct Mapping(NonNull<Table>);

// SAFETY: a `Table` is made of atomics only, and the mapping lives as long as this value.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new() -> io::Result<Self> {
        // SAFETY: a new anonymous mapping at an address that the kernel chooses.
        let address = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                size_of::<Table>(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )
        }?;
        NonNull::new(address.cast()).map(Self).ok_or_else(|| io::Error::other("mapped at zero"))
    }

    fn table(&self) -> &Table {
        // SAFETY: mapped for as long as `self`, aligned to a page, zeroed by the kernel, which is a
        // valid `Table`; only atomics in it, so that others may write to it at any time.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: ours, of this size, and no reference into it outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.0.as_ptr().cast(), size_of::<Table>()) };
    }
}

/// The guard, as its process sees it. Dropping it lets the guard put back what is left, and end.
pub struct Guard {
    mapping: Mapping,
    /// Only ever closed.
    _alive: OwnedFd,
}

impl Guard {
    /// Forks it (twice, so that it is nobody's child: it is never waited for, and its end signals
    /// nobody).
    pub fn start() -> io::Result<Self> {
        let mapping = Mapping::new()?;
        let (end, alive) = pipe()?;
        // SAFETY: the child calls nothing but `settle`, which makes only system calls.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => putting_back::settle(end.as_raw_fd(), mapping.table()),
            child => {
                let mut status = 0;
                // SAFETY: our child, which ends at once; `status` is valid for writes.
                while unsafe { libc::waitpid(child, &raw mut status, 0) } == -1
                    && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
                {
                }
                if status != 0 {
                    return Err(io::Error::other("the guard could not be forked"));
                }
                Ok(Self { mapping, _alive: alive })
            }
        }
    }

    /// Puts a group under guard, before anything is done to its members. Its place, for
    /// [`forget`](Self::forget).
    ///
    /// # Errors
    /// If there are 64 already, or the path is too long.
    pub fn watch(&self, group: &Path, v1: bool, threaded: bool) -> io::Result<usize> {
        let bytes = group.as_os_str().as_bytes();
        // Room for the longest file name in it, and for the zero.
        if bytes.len() + 32 > LONGEST {
            return Err(io::Error::other("the path of the group is too long for the guard"));
        }
        let entries = &self.mapping.table().entries;
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

    /// The group at this place is gone, or as it was before.
    pub fn forget(&self, place: usize) {
        if let Some(entry) = self.mapping.table().entries.get(place) {
            entry.state.store(FREE, Ordering::Release);
        }
    }

    /// The dispatcher of `cpu` will be back by `due`; one store. [`Instant::MAX`] if nothing is raised
    /// or frozen until somebody asks for it.
    pub fn due(&self, cpu: usize, due: Instant) {
        if let Some(of_cpu) = self.mapping.table().due.get(cpu) {
            of_cpu.store(due.as_nanos(), Ordering::Release);
        }
    }

    /// How often the guard has let go of all groups because some dispatcher was overdue, modulo 2³²;
    /// one load. Who holds groups and sees it change must freeze and raise them once more, also if
    /// not itself was late: all groups are let go of together.
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
        self.mapping.table().acted.load(Ordering::Acquire)
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both are open and nobody else's.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}
