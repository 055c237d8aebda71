//! A futex hand-off: one thread wakes another and goes to sleep.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use punctual_model::time::{Duration, Instant};
use rustix::thread::futex;

use super::seat::{Seat, together};
use super::{MOST_SAMPLES, MeasureError};
use crate::clock;

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

/// The turns are over, for good.
const OVER: u32 = 2;

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
