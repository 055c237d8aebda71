//! The kernel's count of a thread's page faults (perf_event_open(2)).

use std::os::fd::{AsRawFd as _, IntoRawFd as _};

use libbpf_rs::{Link, ProgramMut};

use super::{AttachError, event};

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
            let event = event::of_thread(count, tid)
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
