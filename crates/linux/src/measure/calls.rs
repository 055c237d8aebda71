//! Measurements that need only one thread.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering;

use punctual_model::time::Duration;
use rustix::mm::MapFlags;

use super::seat::{Seat, alone};
use super::{MOST_SAMPLES, MeasureError, PRIORITY};
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
