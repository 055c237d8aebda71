//! The time from the expiry of a timer until its thread runs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::scope;

use punctual_model::time::{Duration, Instant};

use super::seat::{MOST_SAMPLES, MeasureError, Seat, alone, spawn};
use crate::{clock, thread};

/// The shortest time between two timers. The times spread evenly above it, so that no phase of the
/// scheduler tick is sampled more often than another.
const SHORTEST: u64 = 300_000;
const SPREAD: u64 = 1_000_000;

/// The step through the spread, its golden section: covers it evenly for any number of samples.
const STEP: u64 = 618_034;

/// The longest wait for spinning threads to get their CPUs before measuring starts without them.
const PATIENCE: Duration = Duration::from_millis(200);

/// Measures how late an absolute sleep (clock_nanosleep(2)) of a thread in `seat` ends, for
/// `length`, with some 1.2 samples a millisecond. Meanwhile an ordinary thread spins on each of the
/// `spinning` CPUs.
///
/// The lateness of a SCHED_OTHER thread includes its timer slack (prctl(2), 50 µs by default).
pub fn wakeup(
    seat: Seat,
    spinning: &[usize],
    length: Duration,
) -> Result<Vec<Duration>, MeasureError> {
    let spinners = &Spinners::default();
    scope(|scope| {
        // This guard stops the spinners on every path; otherwise the clock does.
        let _stop = StopOnDrop(&spinners.stop);
        let end = clock::now().saturating_add(length).saturating_add(Duration::from_secs(1));
        for &cpu in spinning {
            spawn(scope, move || spinners.spin(cpu, end))?;
        }
        let ready = clock::now().saturating_add(PATIENCE);
        while spinners.running.load(Ordering::Acquire) < spinning.len() && clock::now() < ready {
            clock::sleep(Duration::from_micros(100));
        }
        alone(seat, || {
            let mut samples = Vec::with_capacity(MOST_SAMPLES);
            let until = clock::now().saturating_add(length);
            let mut phase = 0;
            while samples.len() < MOST_SAMPLES && clock::now() < until {
                let at = clock::now() + Duration::from_nanos(SHORTEST + phase);
                phase = (phase + STEP) % SPREAD;
                clock::sleep_until(at);
                samples.push(clock::now() - at);
            }
            Ok(samples)
        })
    })
}

#[derive(Default)]
struct Spinners {
    stop: AtomicBool,
    running: AtomicUsize,
}

impl Spinners {
    fn spin(&self, cpu: usize, end: Instant) {
        let pinned = thread::pin_to(cpu);
        self.running.fetch_add(1, Ordering::AcqRel);
        while pinned.is_ok() && !self.stop.load(Ordering::Relaxed) && clock::now() < end {
            std::hint::spin_loop();
        }
    }
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
