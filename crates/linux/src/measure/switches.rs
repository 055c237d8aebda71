//! Switches alone: sched_yield(2) between two threads of one priority on one CPU, and between two
//! processes, which includes the address space.
#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_model::time::{Duration, Instant};
use rustix::io::Errno;
use rustix::mm::MapFlags;
use rustix::process::{Pid, Signal, WaitOptions};

use super::seat::{Seat, alone, together};
use super::{MOST_SAMPLES, MeasureError};
use crate::clock;
use crate::mapping::Mapping;

/// Measures the time from just before one thread yields until the other runs, both SCHED_FIFO on
/// `cpu`, for `length`. The two share one address space, so this is the cheapest switch.
pub fn thread_switch(cpu: usize, length: Duration) -> Result<Vec<Duration>, MeasureError> {
    let words = [AtomicU64::new(0), AtomicU64::new(0)];
    let table = Table::new(&words);
    let until = clock::now().saturating_add(length);
    let body = |me: u64| {
        move || {
            let mut samples = Vec::with_capacity(MOST_SAMPLES);
            table.take_turns(me, until, |sample| {
                if samples.len() < MOST_SAMPLES {
                    samples.push(sample);
                }
            });
            samples
        }
    };
    let (mut samples, more) = together([Seat::fifo(cpu); 2], body(0), body(1))?;
    samples.extend(more);
    Ok(samples)
}

/// The words that two threads yielding to each other write: the last to yield, and the time.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    yielder: &'a AtomicU64,
    yielded_at: &'a AtomicU64,
}

impl<'a> Table<'a> {
    pub(super) fn new([yielder, yielded_at]: &'a [AtomicU64; 2]) -> Self {
        Self { yielder, yielded_at }
    }

    /// Yields until `until`, and passes to `sample` the time of each switch to `me`, 0 or 1.
    ///
    /// Allocates nothing and cannot panic if `sample` does neither, so a child may call it after
    /// fork(2).
    pub(super) fn take_turns(self, me: u64, until: Instant, mut sample: impl FnMut(Duration)) {
        loop {
            let now = clock::now();
            if now >= until {
                return;
            }
            self.yielder.store(me, Ordering::Relaxed);
            self.yielded_at.store(now.as_nanos(), Ordering::Release);
            rustix::thread::sched_yield();
            let after = clock::now();
            let yielded_at = Instant::from_nanos(self.yielded_at.load(Ordering::Acquire));
            // If the last to yield is still `me`, the call returned without a switch.
            if self.yielder.load(Ordering::Relaxed) != me {
                sample(after.saturating_since(yielded_at));
            }
        }
    }
}

/// Measures the time from just before one process yields (sched_yield(2)) until the other runs,
/// both SCHED_FIFO on `cpu`, for `length`. The other process is a child of the calling process,
/// which ends with it.
pub fn process_switch(cpu: usize, length: Duration) -> Result<Vec<Duration>, MeasureError> {
    let bytes = 2 * size_of::<AtomicU64>();
    let shared = Mapping::anonymous(bytes, MapFlags::SHARED).map_err(MeasureError::NoMemory)?;
    // SAFETY: the memory is anonymous and writable.
    let words = unsafe { shared.words() };
    // Always succeeds: the mapping has two words.
    let Some(words) = words.first_chunk() else { return Ok(Vec::new()) };
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
