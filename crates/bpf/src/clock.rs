//! A software clock of perf_event_open(2): a timer that expires in hard interrupt context.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd};

use libbpf_rs::{Link, ProgramMut};
use punctual_model::time::Duration;

use super::{AttachError, event};

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
        let event = event::on_cpu(CPU_CLOCK, cpu, nanos(period)?).map_err(clock)?;
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
