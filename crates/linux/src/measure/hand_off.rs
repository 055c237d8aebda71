//! A futex hand-off: one thread wakes another and goes to sleep.

use std::sync::atomic::{AtomicU64, Ordering};

use punctual_model::time::{Duration, Instant};

use super::seat::{Seat, together};
use super::turns::Turns;
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
