//! The code of the guard's process. Nothing here allocates, locks or panics: it runs in a child
//! after fork(2).

use std::sync::atomic::Ordering;

use super::{Entry, LONGEST, OVERDUE, SET, Table};

/// The guard's priority, above the dispatcher's: the guard must get the CPU even if a thread is
/// left at a high priority. It works for some hundred microseconds after a death, and otherwise
/// looks at the clock twice a second.
static PRIORITY: libc::c_int = 91;

/// The interval at which the guard checks whether a dispatcher is overdue, in ms.
const LOOK: libc::c_int = 500;

/// The number of attempts at a group that cannot be removed before it is left to the next start.
const TRIES: u32 = 400;

/// Runs in the first child: forks the guard and ends.
pub(super) fn settle(end: libc::c_int, table: &Table) -> ! {
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

const PROCESSES: (&[u8], &[u8]) = (b"/cgroup.procs", b"/../cgroup.procs");

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
