//! The record of a driver's services, the same in all contexts.

use punctual_model::{Duration, Instant};
use punctual_modem::card::RING;
use punctual_modem::fsk::NANOS_PER_SAMPLE;

/// One service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its due time; unknown in a hard interrupt, whose phase is the kernel's.
    pub due: Option<Instant>,
    /// The time of its first instruction.
    pub begin: Instant,
    /// The time after its last line.
    pub end: Instant,
    /// Samples of all lines that were lost when it began.
    pub samples_lost: u64,
}

/// All services of a context, and the lines they served.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// The beginning of sample 0.
    pub start: Instant,
    /// The services in the order in which they ran.
    pub services: Vec<Service>,
    /// The counters of each line.
    pub lines: Vec<punctual_modem::fsk::Stats>,
    /// Interrupts that came while an earlier one was being served or waited.
    pub missed: u64,
    /// Processor time: of the thread, or the sum of the services in the kernel.
    pub cpu: Duration,
}

impl Service {
    /// Returns the time from its first to its last instruction, preemption included, as the study
    /// measured it (§6.1).
    pub fn elapsed(&self) -> Duration {
        self.end.saturating_since(self.begin)
    }

    /// Returns the number of samples that came while it ran and are pending when it returns.
    pub fn pending_after(&self, start: Instant) -> u64 {
        position(start, self.end) - position(start, self.begin)
    }
}

/// Returns the number of samples lost by a card that shows its position modulo its ring, when
/// `pending` samples are pending: whole rings.
pub fn lost_of(pending: u64) -> u64 {
    pending - pending % RING as u64
}

/// Returns the card's position at `now`.
pub fn position(start: Instant, now: Instant) -> u64 {
    now.saturating_since(start).as_nanos() / NANOS_PER_SAMPLE
}

#[cfg(test)]
mod tests {
    use punctual_modem::LineQuality;
    use punctual_modem::fsk::{Line, Recording};

    use super::*;

    /// The kernel keeps only the total of lost samples; this function gives it for each service.
    #[test]
    fn the_samples_lost_are_those_that_a_line_counts() {
        let recording = Recording::of_far_end(LineQuality::default(), 1);
        let mut line = Line::new(0);
        let (mut at, mut lost) = (0, 0);
        for pending in [100, 511, 512, 0, 513, 1_023, 1_024, 5_000, 90] {
            at += pending;
            let _ = line.serve(&recording, at, 1);
            lost += lost_of(pending);
            assert_eq!(line.stats().lost, lost, "{pending} were pending");
        }
        assert!(lost > 5_000);
    }
}
