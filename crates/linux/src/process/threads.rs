//! Priorities and CPUs of threads, including those of other processes.
//!
//! These functions use sched_setscheduler(2), which leaves the nice value alone: a thread that is
//! raised and lowered again is as nice as before. (sched_setattr(2) would set one.)
#![allow(unsafe_code)]

use std::fs;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::CpuSet;

use crate::thread::Tid;

/// Puts `thread` under SCHED_FIFO at `priority` (1 to 99), some 2 µs.
///
/// # Errors
/// ESRCH if it has ended, EPERM without the right.
pub fn raise(thread: Tid, priority: u8) -> Result<(), Errno> {
    set(thread, libc::SCHED_FIFO, priority)
}

/// Does what [`raise`] does for this thread alone: threads and processes that it makes meanwhile
/// start under SCHED_OTHER (SCHED_RESET_ON_FORK, sched(7)).
///
/// # Errors
/// As [`raise`].
pub fn raise_alone(thread: Tid, priority: u8) -> Result<(), Errno> {
    set(thread, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority)
}

/// Lowers `thread` to SCHED_OTHER between two calls of [`raise_alone`]. The flag is kept, because
/// clearing it takes CAP_SYS_NICE and keeping it takes no privilege.
///
/// # Errors
/// As [`lower`].
pub fn lower_alone(thread: Tid) -> Result<(), Errno> {
    set(thread, libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0)
}

/// Puts `thread` back under SCHED_OTHER, with its own nice value.
///
/// # Errors
/// ESRCH if it has ended, EPERM if it belongs to another user.
pub fn lower(thread: Tid) -> Result<(), Errno> {
    set(thread, libc::SCHED_OTHER, 0)
}

fn set(thread: Tid, policy: libc::c_int, priority: u8) -> Result<(), Errno> {
    let param = libc::c_int::from(priority);
    // SAFETY: the kernel reads a `struct sched_param`, which is this one int, and writes nothing.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, thread.as_raw(), policy, &raw const param)
    };
    if result >= 0 {
        return Ok(());
    }
    let errno = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&errno).unwrap_or(Errno::IO))
}

/// Restricts `thread`, and what it makes later, to these CPUs (sched_setaffinity(2)).
///
/// # Errors
/// ESRCH if it has ended, EINVAL if it may use none of them, EBUSY under SCHED_DEADLINE.
pub fn pin(thread: Tid, cpus: &[usize]) -> Result<(), Errno> {
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    rustix::thread::sched_setaffinity(Pid::from_raw(thread.as_raw()), &set)
}

/// Returns the threads of a process, from /proc/PID/task; empty if it has ended.
pub fn of(pid: i32) -> Vec<Tid> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let id = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    entries.flatten().filter_map(id).filter_map(Tid::from_raw).collect()
}

/// Returns the process of a thread (`Tgid` of proc_pid_status(5)), or `None` if it has ended.
pub fn process_of(thread: Tid) -> Option<i32> {
    let text = crate::procfs::text(format!("/proc/{thread}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Returns the start of a thread of a process, in clock ticks since the boot; `None` if the process
/// has no such thread. Together with the id it identifies the thread for good.
pub fn start_of(pid: i32, thread: i32) -> Option<u64> {
    parse_start(&crate::procfs::text(format!("/proc/{pid}/task/{thread}/stat")).ok()?)
}

/// Returns field 22 of /proc/PID/task/TID/stat. The second field is the name in parentheses, which
/// may contain anything.
pub fn parse_start(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::{self, Class};
    use crate::thread;

    #[test]
    fn the_start_is_found_behind_any_name() {
        let stat = "7 (a) R (b) S 1 7 7 0 -1 64 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        assert_eq!(parse_start(stat), Some(4711));
        assert_eq!(parse_start("7 (a"), None);
        assert_eq!(parse_start(""), None);
    }

    #[test]
    fn a_thread_is_as_nice_afterwards_as_it_was_before() {
        std::thread::spawn(|| {
            let me = thread::current();
            sched::set(me, Class::Other { nice: 7 }).expect("nicer needs no right");
            match raise(me, 3) {
                Ok(()) => {}
                Err(errno) => return println!("skipped: SCHED_FIFO: {errno}"),
            }
            let class = || sched::get(me).expect("our own").class();
            assert_eq!(class(), Some(Class::Fifo { priority: 3 }));
            lower(me).expect("giving up needs no right");
            assert_eq!(class(), Some(Class::Other { nice: 7 }));
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn threads_are_found_and_know_their_process() {
        let me = i32::try_from(std::process::id()).expect("positive");
        let (tid, seen) =
            std::thread::spawn(move || (thread::current(), of(me))).join().expect("no panic");
        assert!(seen.contains(&tid));
        assert_eq!(process_of(thread::current()), Some(me));
        assert_eq!(of(0), []);
    }
}
