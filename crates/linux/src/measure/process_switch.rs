//! A switch between two processes, which includes the address space.
#![allow(unsafe_code)]

use std::io;

use punctual_model::time::Duration;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

use super::mapping::Mapping;
use super::seat::{Seat, alone};
use super::thread_switch::Table;
use super::{MOST_SAMPLES, MeasureError};
use crate::clock;

/// Measures the time from just before one process yields (sched_yield(2)) until the other runs,
/// both SCHED_FIFO on `cpu`, for `length`. The other process is a child of the calling process,
/// which ends with it.
pub fn process_switch(cpu: usize, length: Duration) -> Result<Vec<Duration>, MeasureError> {
    let shared = Mapping::shared(2)?;
    // Always succeeds: the mapping has two words.
    let Some(words) = shared.words().first_chunk() else { return Ok(Vec::new()) };
    let table = Table::new(words);
    alone(Seat::fifo(cpu), move || {
        let mut samples = Vec::with_capacity(MOST_SAMPLES);
        let until = clock::now().saturating_add(length);
        // SAFETY: this process has other threads, so the child may make only async-signal-safe
        // calls (fork(2)). It makes prctl, clock_gettime, sched_yield and _exit, allocates nothing,
        // takes no lock and cannot panic. Its memory is a copy except for `shared`, which consists
        // of atomics.
        let child = unsafe { libc::fork() };
        match child {
            0 => {
                // If this fails, the clock still ends the child.
                let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
                table.take_turns(1, until, |_| ());
                // SAFETY: `_exit` ends the process without running any of the parent's code
                // (_exit(2)).
                unsafe { libc::_exit(0) }
            }
            child => {
                let child = (child > 0).then(|| Pid::from_raw(child)).flatten();
                let child =
                    child.ok_or_else(|| MeasureError::NoProcess(io::Error::last_os_error()))?;
                table.take_turns(0, until, |sample| {
                    if samples.len() < MOST_SAMPLES {
                        samples.push(sample);
                    }
                });
                // The child ends by the clock as we did. ECHILD: SIGCHLD is ignored, so it is
                // reaped already.
                let wait = || rustix::process::waitpid(Some(child), WaitOptions::empty());
                while matches!(wait(), Err(Errno::INTR)) {}
                Ok(samples)
            }
        }
    })
}
