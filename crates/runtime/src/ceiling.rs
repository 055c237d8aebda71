//! Delayed preemption by the kernel's own FIFO queue.
//!
//! An upcall waits for its release at the SCHED_FIFO priority of its rate, and rises to one common
//! ceiling while it runs. While it is there no other upcall of the host can preempt it, however
//! high its rate; when it sinks again, the kernel itself picks the most urgent waiter. So the
//! kernel's FIFO queue is the run queue of RMDP (real-time upcalls, §5.1) across processes, with
//! no daemon between two upcalls.
//!
//! Inside one process all upcalls share a thread and are ordered by the policy without any system
//! call; the thread waits at the priority of the upcall that is released next.

use punctual_linux::sched::{self, Class, SchedError};
use punctual_linux::thread::{self, Tid};
use punctual_model::Duration;

/// The SCHED_FIFO priority of a running upcall.
///
/// Below the threads of a kernel with forced interrupt threading would be 49; most kernels have
/// none, and a wide band of levels under the ceiling keeps more rates apart.
pub const CEILING: u8 = 80;

/// The least urgent level at which an upcall waits.
pub const LOWEST: u8 = 2;

/// Periods up to this wait at the most urgent level.
const SHORTEST: Duration = Duration::from_micros(125);

/// Levels for each doubling of the period: rates that differ by more than 12 % are kept apart,
/// over the 13 doublings from 125 µs to a second.
const LEVELS_PER_OCTAVE: f64 = 6.0;

/// The SCHED_FIFO priority at which an upcall of this period waits for its release: the shorter
/// the period, the higher.
pub fn level_of(period: Duration) -> u8 {
    let octaves = (period.as_secs_f64() / SHORTEST.as_secs_f64()).log2().max(0.0);
    let below = (octaves * LEVELS_PER_OCTAVE).floor();
    let levels = f64::from(CEILING - 1 - LOWEST);
    CEILING - 1 - below.min(levels) as u8
}

/// The calling thread's place in the protocol.
#[derive(Debug)]
pub(crate) struct Ceiling {
    thread: Tid,
    priority: u8,
}

impl Ceiling {
    /// Puts the calling thread under SCHED_FIFO, at the ceiling.
    pub(crate) fn enter() -> Result<Self, SchedError> {
        let thread = thread::current();
        sched::set(thread, Class::Fifo { priority: CEILING })?;
        Ok(Self { thread, priority: CEILING })
    }

    /// Before an upcall runs.
    pub(crate) fn rise(&mut self) -> Result<(), SchedError> {
        self.move_to(CEILING)
    }

    /// Before waiting for the release of an upcall of this period.
    pub(crate) fn sink(&mut self, period: Duration) -> Result<(), SchedError> {
        self.move_to(level_of(period))
    }

    fn move_to(&mut self, priority: u8) -> Result<(), SchedError> {
        if priority != self.priority {
            sched::set_fifo_priority(self.thread, priority)?;
            self.priority = priority;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_keep_the_order_of_rates_and_stay_in_their_band() {
        let mut last = CEILING;
        for us in [1, 125, 150, 1_000, 12_500, 40_000, 50_000, 60_000, 70_000, 80_000, 90_000] {
            let level = level_of(Duration::from_micros(us));
            assert!((LOWEST..CEILING).contains(&level));
            assert!(us < 150 || level < last, "{us} us is kept apart from the rate before");
            last = level;
        }
        assert_eq!(level_of(Duration::from_secs(3600)), LOWEST);
        assert_eq!(level_of(Duration::MAX), LOWEST);
    }
}
