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
//! system calls: no allocation, no lock, no formatted text, no panic (fork(2)). Its input lies in
//! memory that it shares with us.
//!
//! If the guard dies, too, the next start finds the groups by name ([`crate::cgroup::sweep`]).
#![allow(unsafe_code)]

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

/// The guard's priority, above the dispatcher's: the guard must get the CPU even if a thread is
/// left at a high priority. It works for some hundred microseconds after a death, and otherwise
/// looks at the clock twice a second.
static PRIORITY: libc::c_int = 91;

/// The interval at which the guard checks whether a dispatcher is overdue, in ms.
const LOOK: libc::c_int = 500;

/// The number of attempts at a group that cannot be removed before it is left to the next start.
const TRIES: u32 = 400;

const PROCESSES: (&[u8], &[u8]) = (b"/cgroup.procs", b"/../cgroup.procs");

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
            0 => settle(end.as_raw_fd(), shared.table()),
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

/// Runs in the first child: forks the guard and ends.
fn settle(end: libc::c_int, table: &Table) -> ! {
    // SAFETY: all are system calls, one of which takes a zero-terminated string; `_exit` runs none
    // of the parent's code.
    unsafe {
        match libc::fork() {
            -1 => libc::_exit(1),
            0 => {}
            _ => libc::_exit(0),
        }
        // A session of its own, so that signals of the terminal or to our group do not reach it.
        libc::setsid();
        // The working directory must not keep a file system mounted; all the guard's paths are
        // absolute.
        libc::chdir(c"/".as_ptr());
    }
    ignore_signals();
    close_all_but(end);
    raise();
    // SAFETY: the name is a zero-terminated string, of which the kernel copies 15 bytes.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"punctual-guard".as_ptr()) };
    watch(end, table);
    // SAFETY: `_exit` ends this process and runs none of the parent's code.
    unsafe { libc::_exit(0) }
}

fn ignore_signals() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGPIPE] {
        // SAFETY: SIG_IGN is a valid disposition for these signals.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Closes the parent's files. If the guard kept a copy of the parent's end of the pipe, it would
/// never end.
fn close_all_but(end: libc::c_int) {
    let last = libc::c_uint::MAX;
    // SAFETY: close_range(2) takes only numbers, and this process uses no descriptor other than
    // `end`.
    unsafe {
        if end > 0 {
            libc::syscall(libc::SYS_close_range, 0, end - 1, 0);
        }
        if libc::syscall(libc::SYS_close_range, end + 1, last, 0) == -1 {
            // Before Linux 5.9.
            for descriptor in end + 1..4096 {
                libc::close(descriptor);
            }
        }
    }
}

fn raise() {
    // SAFETY: the kernel reads one int. Without the right the guard stays an ordinary process.
    unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const PRIORITY)
    };
}

fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writes of a timespec because it is a local variable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.unsigned_abs().wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec.unsigned_abs())
}

fn watch(end: libc::c_int, table: &Table) {
    let set = || table.entries.iter().filter(|entry| entry.state.load(Ordering::Acquire) == SET);
    loop {
        let mut poll = libc::pollfd { fd: end, events: libc::POLLIN, revents: 0 };
        // SAFETY: `poll` is one valid structure, which outlives the call.
        let ready = unsafe { libc::poll(&raw mut poll, 1, LOOK) };
        if ready > 0 {
            // Nothing is ever written to the pipe: the other end is closed.
            for entry in set() {
                put_back(entry);
            }
            return;
        }
        let late = now().saturating_sub(OVERDUE.as_nanos());
        let overdue = |due: u64| due != 0 && due < late;
        if table.due.iter().any(|due| overdue(due.load(Ordering::Acquire))) {
            for entry in set() {
                release(entry);
            }
            // Last, so that a dispatcher that sees it finds all groups released.
            table.acted.fetch_add(1, Ordering::Release);
        }
    }
}

/// Undoes everything, and removes the group itself.
fn put_back(entry: &Entry) {
    for _ in 0..TRIES {
        release(entry);
        let (members, parents) = if entry.v1.load(Ordering::Relaxed) == 1 {
            let threaded = entry.threaded.load(Ordering::Relaxed) == 1;
            if threaded { (&b"/tasks"[..], &b"/../tasks"[..]) } else { PROCESSES }
        } else if entry.threaded.load(Ordering::Relaxed) == 1 {
            (&b"/cgroup.threads"[..], &b"/../cgroup.threads"[..])
        } else {
            PROCESSES
        };
        each_id(entry, members, |id| {
            unpin(id);
            write_id(entry, parents, id);
        });
        let path = path(entry, b"");
        // SAFETY: `path` is a zero-terminated string.
        if unsafe { libc::rmdir(path.as_ptr().cast()) } == 0 {
            return;
        }
        let pause = libc::timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        // SAFETY: `pause` is one valid structure; a null pointer means that nothing is written
        // back.
        unsafe { libc::nanosleep(&raw const pause, std::ptr::null_mut()) };
    }
}

/// Thaws the group and lowers its members to SCHED_OTHER. Lowers them twice: a thread whose creator
/// was lowered during its creation still has the old priority.
fn release(entry: &Entry) {
    let v1 = entry.v1.load(Ordering::Relaxed) == 1;
    if v1 {
        write(entry, b"/freezer.state", b"THAWED");
    } else {
        write(entry, b"/cgroup.freeze", b"0");
    }
    for _ in 0..2 {
        each_id(entry, if v1 { b"/tasks" } else { b"/cgroup.threads" }, lower);
    }
}

fn lower(id: libc::c_int) {
    let none: libc::c_int = 0;
    // SAFETY: the kernel reads one int; only threads under SCHED_FIFO are lowered.
    unsafe {
        if libc::syscall(libc::SYS_sched_getscheduler, id) == libc::c_long::from(libc::SCHED_FIFO) {
            libc::syscall(libc::SYS_sched_setscheduler, id, libc::SCHED_OTHER, &raw const none);
        }
    }
}

/// Lets the thread use all CPUs that its cpuset allows.
fn unpin(id: libc::c_int) {
    let all = [0xffu8; 128];
    // SAFETY: the kernel reads `all.len()` = 128 bytes, which `all` has.
    unsafe { libc::syscall(libc::SYS_sched_setaffinity, id, all.len(), all.as_ptr()) };
}

/// Returns the group's path with the name of a file in it, zero-terminated.
fn path(entry: &Entry, name: &[u8]) -> [u8; LONGEST] {
    let mut path = [0; LONGEST];
    let length = (entry.length.load(Ordering::Relaxed) as usize).min(LONGEST - 32);
    for (to, from) in path.iter_mut().zip(entry.path.iter().take(length)) {
        *to = from.load(Ordering::Relaxed);
    }
    for (to, from) in path.iter_mut().skip(length).zip(name) {
        *to = *from;
    }
    path
}

fn open(entry: &Entry, name: &[u8], flags: libc::c_int) -> Option<libc::c_int> {
    let path = path(entry, name);
    // SAFETY: `path` is zero-terminated because every name is shorter than the room kept for it.
    let file = unsafe { libc::open(path.as_ptr().cast(), flags) };
    (file >= 0).then_some(file)
}

fn write(entry: &Entry, name: &[u8], text: &[u8]) {
    let Some(file) = open(entry, name, libc::O_WRONLY) else { return };
    // SAFETY: `text` is valid for reads of its length; `file` was just opened here.
    unsafe {
        libc::write(file, text.as_ptr().cast(), text.len());
        libc::close(file);
    }
}

fn write_id(entry: &Entry, name: &[u8], id: libc::c_int) {
    let mut text = [0; 12];
    let (mut at, mut rest) = (text.len(), id.unsigned_abs());
    while rest > 0 && at > 0 {
        at -= 1;
        text[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    write(entry, name, text.get(at..).unwrap_or_default());
}

fn each_id(entry: &Entry, name: &[u8], with: impl Fn(libc::c_int)) {
    let Some(file) = open(entry, name, libc::O_RDONLY) else { return };
    let (mut buffer, mut id) = ([0u8; 4096], 0 as libc::c_int);
    loop {
        // SAFETY: `buffer` is valid for writes of its length.
        let read = unsafe { libc::read(file, buffer.as_mut_ptr().cast(), buffer.len()) };
        let Ok(read @ 1..) = usize::try_from(read) else { break };
        for byte in buffer.iter().take(read) {
            if byte.is_ascii_digit() {
                id = id.wrapping_mul(10).wrapping_add(libc::c_int::from(byte - b'0'));
            } else if id > 0 {
                with(id);
                id = 0;
            }
        }
    }
    // SAFETY: `file` was opened here and is not used again.
    unsafe { libc::close(file) };
}
