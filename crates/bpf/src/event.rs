//! Software events of perf_event_open(2), to which programs are attached.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

/// PERF_TYPE_SOFTWARE, `disabled` and PERF_FLAG_FD_CLOEXEC of linux/perf_event.h.
const SOFTWARE: u32 = 1;
const DISABLED: u64 = 1;
const CLOSE_ON_EXEC: u64 = 8;

/// The beginning of `perf_event_attr`, as in its first version.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample: u64,
    read: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    address: u64,
}

/// Opens a software event on one CPU, for any thread, every `period` counts.
pub(super) fn on_cpu(event: u64, cpu: usize, period: u64) -> io::Result<OwnedFd> {
    let no_such = |_| io::Error::new(io::ErrorKind::InvalidInput, "no such CPU");
    open(event, period, -1, libc::c_int::try_from(cpu).map_err(no_such)?)
}

/// Opens a software event of one thread, on any CPU, at every count.
pub(super) fn of_thread(event: u64, tid: u32) -> io::Result<OwnedFd> {
    let no_such = |_| io::Error::new(io::ErrorKind::InvalidInput, "no such thread");
    open(event, 1, libc::pid_t::try_from(tid).map_err(no_such)?, -1)
}

fn open(event: u64, period: u64, thread: libc::pid_t, cpu: libc::c_int) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: event,
        period,
        flags: DISABLED,
        ..Attributes::default()
    };
    let no_group: libc::c_int = -1;
    // SAFETY: `attributes` is laid out as `perf_event_attr` and contains its own size; the kernel
    // only reads it.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            thread,
            cpu,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    match libc::c_int::try_from(fd) {
        // SAFETY: the kernel made this descriptor for us alone.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
