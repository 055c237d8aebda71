//! System calls for hostile clients that no library offers.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use rustix::mm::{UserfaultfdFlags, userfaultfd};

/// Missing in libc (asm-generic/socket.h).
const SO_PASSRIGHTS: i32 = 83;

/// Lets a socket receive open files again (unix(7), SO_PASSRIGHTS). Returns whether the kernel did
/// it.
pub(super) fn take_files_again(socket: impl AsFd) -> bool {
    let on: i32 = 1;
    // SAFETY: the option's value is an `int`, which is read and not kept.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const on).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    outcome == 0
}

/// Lets the calling thread run only while no other thread wants the CPU (sched(7), SCHED_IDLE).
pub(super) fn run_only_when_idle() -> bool {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters are read and not kept; zero is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const none) == 0 }
}

/// Makes a userfaultfd(2) descriptor for this process. An ordinary user may handle only faults from
/// user space.
pub(super) fn user_fault() -> rustix::io::Result<OwnedFd> {
    /// Missing in rustix (UFFD_USER_MODE_ONLY).
    const USER_MODE_ONLY: u32 = 1;
    let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::from_bits_retain(USER_MODE_ONLY);
    // SAFETY: no range is ever registered with it, so it handles no fault.
    unsafe { userfaultfd(flags) }
}
