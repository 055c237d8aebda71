//! One service of the driver, whoever ran it.

use punctual_model::{Duration, Instant};
use punctual_softmodem::fsk::NANOS_PER_SAMPLE;

/// One service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// When it was due; not known in a hard interrupt, whose phase is the kernel's.
    pub due: Option<Instant>,
    /// Its first instruction.
    pub begin: Instant,
    /// After its last line.
    pub end: Instant,
}

/// All services of a context, and the lines they served.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// When sample 0 began.
    pub start: Instant,
    /// In the order in which they ran.
    pub services: Vec<Service>,
    /// What became of each line.
    pub lines: Vec<punctual_softmodem::fsk::Stats>,
    /// Interrupts that came while an earlier one was being served, or waited.
    pub missed: u64,
    /// Processor time: of the thread, or the sum of the services in the kernel.
    pub cpu: Duration,
}

impl Service {
    /// From its first to its last instruction, preemption included, as the study measured it (§6.1).
    pub fn elapsed(&self) -> Duration {
        self.end.saturating_since(self.begin)
    }

    /// Samples that came while it was being served: what is pending when it returns.
    pub fn pending_after(&self, start: Instant) -> u64 {
        position(start, self.end) - position(start, self.begin)
    }
}

/// The card's position at `now`.
pub fn position(start: Instant, now: Instant) -> u64 {
    now.saturating_since(start).as_nanos() / NANOS_PER_SAMPLE
}
