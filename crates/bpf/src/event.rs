//! Software events of perf_event_open(2), and the programs attached to them: a clock that expires in
//! hard interrupt context, and the count of a thread's page faults.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _, OwnedFd};

use libbpf_rs::{Link, ProgramMut};
use punctual_model::time::Duration;

use super::AttachError;

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

/// PERF_COUNT_SW_CPU_CLOCK and PERF_EVENT_IOC_PERIOD of linux/perf_event.h.
const CPU_CLOCK: u64 = 0;
const SET_PERIOD: libc::Ioctl = 0x4008_2404;

/// A program that runs on one CPU at every tick of this clock, until this is dropped.
#[derive(Debug)]
pub struct CpuClock {
    event: OwnedFd,
    #[expect(dead_code, reason = "held for its drop, which stops the clock and detaches")]
    link: Link,
}

impl CpuClock {
    pub(super) fn start(
        program: &ProgramMut<'_>,
        cpu: usize,
        period: Duration,
    ) -> Result<Self, AttachError> {
        let clock = |why: io::Error| AttachError::Clock { cpu, why: why.to_string() };
        let event = on_cpu(CPU_CLOCK, cpu, nanos(period)?).map_err(clock)?;
        // The link closes the descriptor that it is given, but only if it is made.
        let given = event.try_clone().map_err(clock)?;
        let link = program.attach_perf_event(given.as_raw_fd()).map_err(|why| {
            let program = program.name().to_string_lossy().into_owned();
            AttachError::Refused { program, why: why.to_string() }
        })?;
        let _ = given.into_raw_fd();
        Ok(Self { event, link })
    }

    /// Changes the period from now on.
    ///
    /// # Errors
    /// An [`AttachError`]; then the old period stays.
    pub fn set_period(&self, period: Duration) -> Result<(), AttachError> {
        let mut nanos = nanos(period)?;
        // SAFETY: the request reads 64 bits at the address of `nanos`, which outlives the call.
        let done = unsafe { libc::ioctl(self.event.as_raw_fd(), SET_PERIOD, &raw mut nanos) };
        if done == 0 { Ok(()) } else { Err(AttachError::Period { nanos }) }
    }
}

/// Converts a period to nanoseconds; the kernel reserves the highest bit.
fn nanos(period: Duration) -> Result<u64, AttachError> {
    match period.as_nanos() {
        nanos @ 1..=0x7fff_ffff_ffff_ffff => Ok(nanos),
        nanos => Err(AttachError::Period { nanos }),
    }
}

/// PERF_COUNT_SW_PAGE_FAULTS_MIN and _MAJ of linux/perf_event.h.
const MINOR: u64 = 5;
const MAJOR: u64 = 6;

/// A program that runs in a thread at the end of each of its page faults, when the page is in
/// place, until this is dropped.
#[derive(Debug)]
pub struct PageFaults(#[expect(dead_code, reason = "held for their drop")] [Link; 2]);

impl PageFaults {
    pub(super) fn of(program: &ProgramMut<'_>, tid: u32) -> Result<Self, AttachError> {
        let attach = |count: u64| {
            let event = of_thread(count, tid)
                .map_err(|why| AttachError::PageFaults { tid, why: why.to_string() })?;
            let link = program.attach_perf_event(event.as_raw_fd()).map_err(|why| {
                let program = program.name().to_string_lossy().into_owned();
                AttachError::Refused { program, why: why.to_string() }
            })?;
            // From now on the link closes it.
            let _ = event.into_raw_fd();
            Ok(link)
        };
        Ok(Self([attach(MINOR)?, attach(MAJOR)?]))
    }
}
