//! Single operations: system calls and faults, which need only one thread; a futex hand-off, by
//! which one thread wakes another and goes to sleep; and switches alone, by sched_yield(2) between
//! two threads of one priority on one CPU, and between two processes, which includes the address
//! space.
#![allow(unsafe_code)]

use std::io;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use punctual_model::time::{Duration, Instant};
use rustix::io::Errno;
use rustix::mm::MapFlags;
use rustix::process::{Pid, Signal, WaitOptions};
use rustix::thread::futex;

use super::seat::{MOST_SAMPLES, MeasureError, PRIORITY, Seat, alone, together};
use crate::mapping::Mapping;
use crate::{clock, sched, thread};

/// Reads of the clock in one sample, so that the sample is not mostly its own clock reads.
const READS: u64 = 64;

/// System calls in one sample.
const CALLS: u64 = 16;

/// Words in the smallest page of any architecture that we run on. If pages are larger, most touches
/// find their page in place, and the spread shows it.
const WORDS: usize = 4096 / 8;

/// Pages touched before they are unmapped.
const PAGES: usize = 512;

/// The turns are over, for good.
const OVER: u32 = 2;

/// Measures a read of CLOCK_MONOTONIC: each sample is the mean of 64 in a row.
pub fn clock_read(seat: Seat, length: Duration) -> Result<Vec<Duration>, MeasureError> {
    repeated(seat, length, READS, || {
        std::hint::black_box(clock::now());
        Ok(())
    })
}

/// Measures gettid(2), which does next to nothing: each sample is the mean of 16 in a row.
pub fn system_call(seat: Seat, length: Duration) -> Result<Vec<Duration>, MeasureError> {
    repeated(seat, length, CALLS, || {
        std::hint::black_box(thread::current());
        Ok(())
    })
}

/// Measures raising the thread's own SCHED_FIFO priority by one and lowering it again, both calls
/// together: the least that a job pays for running at a ceiling. Includes a read of the clock.
pub fn priority_change(cpu: usize, length: Duration) -> Result<Vec<Duration>, MeasureError> {
    repeated(Seat::fifo(cpu), length, 1, || {
        let me = thread::current();
        sched::set_fifo_priority(me, PRIORITY + 1)?;
        Ok(sched::set_fifo_priority(me, PRIORITY)?)
    })
}

/// Measures the first touch of a small page of anonymous memory. Includes a read of the clock.
pub fn page_fault(seat: Seat, length: Duration) -> Result<Vec<Duration>, MeasureError> {
    alone(seat, move || {
        let until = clock::now().saturating_add(length);
        let mut samples = Vec::with_capacity(MOST_SAMPLES);
        while samples.len() < MOST_SAMPLES && clock::now() < until {
            let pages = Mapping::anonymous(PAGES * WORDS * 8, MapFlags::PRIVATE);
            let pages = pages.map_err(MeasureError::NoMemory)?;
            pages.avoid_huge_pages();
            // SAFETY: the memory is anonymous and writable.
            let words = unsafe { pages.words() };
            for first_word in words.iter().step_by(WORDS) {
                let before = clock::now();
                first_word.store(1, Ordering::Relaxed);
                samples.push(clock::now() - before);
            }
        }
        Ok(samples)
    })
}

/// Measures `operation`; each sample is the mean of `times` in a row.
fn repeated(
    seat: Seat,
    length: Duration,
    times: u64,
    operation: impl Fn() -> Result<(), MeasureError> + Send,
) -> Result<Vec<Duration>, MeasureError> {
    alone(seat, move || {
        let mut samples = Vec::with_capacity(MOST_SAMPLES);
        let mut before = clock::now();
        let until = before.saturating_add(length);
        while samples.len() < MOST_SAMPLES && before < until {
            for _ in 0..times {
                operation()?;
            }
            samples.push((clock::now() - before) / times);
            before = clock::now();
        }
        Ok(samples)
    })
}

/// Measures the time from just before one thread wakes the other (futex(2)) until that runs, back
/// and forth between two seats for `length`. On one CPU the waker must go to sleep before the other
/// can run, so the time includes both system calls and the switch.
pub fn hand_off(seats: [Seat; 2], length: Duration) -> Result<Vec<Duration>, MeasureError> {
    let (turns, stamp) = (&Turns::default(), &AtomicU64::new(0));
    let until = clock::now().saturating_add(length);
    let body = |me: u32| {
        move || {
            let mut samples = Vec::with_capacity(MOST_SAMPLES);
            // The first turn has no hand-off before it.
            let mut first = me == 0;
            while samples.len() < MOST_SAMPLES && turns.wait(me, until) {
                let now = clock::now();
                if !first {
                    samples.push(now - Instant::from_nanos(stamp.load(Ordering::Relaxed)));
                }
                first = false;
                if now >= until {
                    break;
                }
                stamp.store(clock::now().as_nanos(), Ordering::Relaxed);
                turns.pass(1 - me);
            }
            turns.end();
            samples
        }
    };
    let (mut samples, more) = together(seats, body(0), body(1))?;
    samples.extend(more);
    Ok(samples)
}

/// The thread whose turn it is: 0 or 1, or [`OVER`].
#[derive(Default)]
pub(super) struct Turns(AtomicU32);

impl Turns {
    /// Sleeps until it is the turn of `me`. Returns true if it came before the end and before
    /// `until`.
    pub(super) fn wait(&self, me: u32, until: Instant) -> bool {
        let timeout = clock::timespec(until.as_nanos());
        loop {
            let turn = self.0.load(Ordering::Acquire);
            if turn == me {
                return true;
            }
            if turn == OVER || clock::now() >= until {
                return false;
            }
            // The loop decides every outcome: time-out, wake, signal, changed value.
            let flags = futex::Flags::PRIVATE;
            let _ = futex::wait_bitset(&self.0, flags, turn, Some(&timeout), NonZeroU32::MAX);
        }
    }

    /// Gives the turn to `other` and wakes it.
    pub(super) fn pass(&self, other: u32) {
        self.0.store(other, Ordering::Release);
        let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
    }

    /// Ends the turns, and wakes a waiting thread.
    pub(super) fn end(&self) {
        self.pass(OVER);
    }
}

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
struct Table<'a> {
    yielder: &'a AtomicU64,
    yielded_at: &'a AtomicU64,
}

impl<'a> Table<'a> {
    fn new([yielder, yielded_at]: &'a [AtomicU64; 2]) -> Self {
        Self { yielder, yielded_at }
    }

    /// Yields until `until`, and passes to `sample` the time of each switch to `me`, 0 or 1.
    ///
    /// Allocates nothing and cannot panic if `sample` does neither, so a child may call it after
    /// fork(2).
    fn take_turns(self, me: u64, until: Instant, mut sample: impl FnMut(Duration)) {
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
