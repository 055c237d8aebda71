//! Programs attached to software events: a clock that expires in hard interrupt context, and the
//! count of a thread's page faults.

use std::io;
use std::os::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd};

use libbpf_rs::{Link, ProgramMut};
use punctual_linux::perf::{self, Count, Of};
use punctual_model::time::Duration;

use super::AttachError;

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
        let event = perf::open(Count::CpuClock, Of::Cpu(cpu), nanos(period)?).map_err(clock)?;
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
        let nanos = nanos(period)?;
        perf::set_period(&self.event, nanos).map_err(|_| AttachError::Period { nanos })
    }
}

/// Converts a period to nanoseconds; the kernel reserves the highest bit.
fn nanos(period: Duration) -> Result<u64, AttachError> {
    match period.as_nanos() {
        nanos @ 1..=0x7fff_ffff_ffff_ffff => Ok(nanos),
        nanos => Err(AttachError::Period { nanos }),
    }
}

/// A program that runs in a thread at the end of each of its page faults, when the page is in
/// place, until this is dropped.
#[derive(Debug)]
pub struct PageFaults(#[expect(dead_code, reason = "held for their drop")] [Link; 2]);

impl PageFaults {
    pub(super) fn of(program: &ProgramMut<'_>, tid: u32) -> Result<Self, AttachError> {
        let attach = |count: Count| {
            let event = perf::open(count, Of::Thread(tid), 1)
                .map_err(|why| AttachError::PageFaults { tid, why: why.to_string() })?;
            let link = program.attach_perf_event(event.as_raw_fd()).map_err(|why| {
                let program = program.name().to_string_lossy().into_owned();
                AttachError::Refused { program, why: why.to_string() }
            })?;
            // From now on the link closes it.
            let _ = event.into_raw_fd();
            Ok(link)
        };
        Ok(Self([attach(Count::MinorFaults)?, attach(Count::MajorFaults)?]))
    }
}
