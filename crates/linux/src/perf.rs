//! Software events of the kernel (perf_event_open(2)): clocks that expire in hard interrupt context,
//! and counts.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// A software event that can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// The time on a CPU, in nanoseconds. Each period of it ends by a high-resolution timer.
    CpuClock,
    /// Page faults that needed no input from a device.
    MinorFaults,
    /// Page faults that did.
    MajorFaults,
}

impl Count {
    /// Returns PERF_COUNT_SW_CPU_CLOCK, _PAGE_FAULTS_MIN or _PAGE_FAULTS_MAJ of linux/perf_event.h.
    fn config(self) -> u64 {
        match self {
            Self::CpuClock => 0,
            Self::MinorFaults => 5,
            Self::MajorFaults => 6,
        }
    }
}

/// The threads whose events are counted.
#[derive(Clone, Copy, Debug)]
pub enum Of<'a> {
    /// All threads while they are on this CPU.
    Cpu(usize),
    /// One thread, on any CPU.
    Thread(u32),
    /// The members of a control group, by its directory, while they are on this CPU.
    Group(BorrowedFd<'a>, usize),
}

/// PERF_TYPE_SOFTWARE, `disabled`, PERF_FLAG_PID_CGROUP, PERF_FLAG_FD_CLOEXEC and the requests of
/// linux/perf_event.h.
const SOFTWARE: u32 = 1;
const DISABLED: u64 = 1;
const OF_GROUP: u64 = 4;
const CLOSE_ON_EXEC: u64 = 8;
const ENABLE: libc::Ioctl = 0x2400;
const SET_PERIOD: libc::Ioctl = 0x4008_2404;

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

/// Opens an event that is not counted yet and expires every `period` counts. Its descriptor can be
/// polled, once mapped, at each expiry.
///
/// # Errors
/// Those of perf_event_open(2); EINVAL for a CPU or a thread that cannot exist.
pub fn open(count: Count, of: Of<'_>, period: u64) -> io::Result<OwnedFd> {
    let no_such = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let number = |cpu: usize| libc::c_int::try_from(cpu).map_err(no_such);
    let (who, cpu, flags) = match of {
        Of::Cpu(cpu) => (-1, number(cpu)?, CLOSE_ON_EXEC),
        Of::Thread(tid) => (libc::pid_t::try_from(tid).map_err(no_such)?, -1, CLOSE_ON_EXEC),
        Of::Group(group, cpu) => (group.as_raw_fd(), number(cpu)?, OF_GROUP | CLOSE_ON_EXEC),
    };
    let attributes = Attributes {
        kind: SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: count.config(),
        period,
        flags: DISABLED,
        wakeup: 1,
        ..Attributes::default()
    };
    let no_leader: libc::c_int = -1;
    // SAFETY: `attributes` is laid out as `perf_event_attr` and contains its own size; the kernel
    // only reads it.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attributes, who, cpu, no_leader, flags)
    };
    match libc::c_int::try_from(fd) {
        // SAFETY: the kernel made this descriptor for us alone.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Begins to count.
///
/// # Errors
/// Those of ioctl(2).
pub fn enable(event: impl AsFd) -> io::Result<()> {
    // SAFETY: the request takes no address.
    check(unsafe { libc::ioctl(event.as_fd().as_raw_fd(), ENABLE, 0) })
}

/// Begins a new period of so many counts, and has all later ones be as long.
///
/// # Errors
/// EINVAL for zero, and with the highest bit set.
pub fn set_period(event: impl AsFd, period: u64) -> io::Result<()> {
    // SAFETY: the request reads 64 bits at the address of `period`, which outlives the call.
    check(unsafe { libc::ioctl(event.as_fd().as_raw_fd(), SET_PERIOD, &raw const period) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_exist_is_refused() {
        let kind = |of| open(Count::CpuClock, of, 1_000_000).expect_err("no such").kind();
        assert_eq!(kind(Of::Cpu(usize::MAX)), io::ErrorKind::InvalidInput);
        assert_eq!(kind(Of::Thread(u32::MAX)), io::ErrorKind::InvalidInput);
        assert!(open(Count::CpuClock, Of::Cpu(1 << 20), 1_000_000).is_err());
    }
}
