//! A soft device without its signal processing: batches of samples that come every period, and a
//! card that loses what nobody takes in time.

use punctual_analysis::supply::PeriodicDemand;
use punctual_model::{Duration, Service};

/// A device, and what its driver must do for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// From one interrupt to the next.
    pub period: Duration,
    /// Samples of one line that come in a period, evenly.
    pub batch: u32,
    /// Processor time for one line's batch.
    pub work: Service,
    /// The most samples of a ring that are taken for one interrupt. The study's driver called its code
    /// once for each interrupt, so a batch; [`punctual_modem::Bank`] takes all there are.
    pub piece: u32,
    /// Lines, served one after the other.
    pub lines: u32,
    /// What becomes of samples that wait.
    pub card: Card,
}

/// What a card does with samples that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Card {
    /// They wait in a ring of so many: whoever comes next finds all of them. At a ring's length
    /// pending the count wraps to zero and they are gone (soft modem study, §3.1). The answer to
    /// them must be written before its slots are played, a ring later.
    Ring(u32),
    /// A batch not begun before the next interrupt is gone: what the study's driver did ("the
    /// code appears to sometimes not successfully process an old interrupt's work once a new one
    /// has occurred", §6.6).
    Latch,
}

/// Slots in each ring of the study's card (§3.1).
pub const RING: u32 = 512;

impl Device {
    /// The study's modem: 1.84 ms every 12.5 ms (§6.6), 90 samples at 7.2 kHz.
    pub fn of_the_study(card: Card) -> Self {
        Self {
            period: Duration::from_micros(12_500),
            batch: 90,
            work: Service::from_micros(1_840),
            piece: 90,
            lines: 1,
            card,
        }
    }

    /// Processor time for all lines, each period.
    pub fn work_a_period(&self) -> Service {
        self.work * u64::from(self.lines)
    }

    /// The same device as the analysis knows it; `None` if it needs more than a whole CPU, or its
    /// ring holds no more than a batch.
    ///
    /// A ring asks for each batch to be done before the ring is full: enough if each is answered before
    /// the next is taken. A driver that takes all that waits at once answers the oldest of it later. A latch with one line asks
    /// for a gap shorter than the period; with more, the last line is begun only after the work of
    /// all others, so that here each period's work is asked to be done within the period: enough,
    /// and more than needed by one line's work.
    pub fn demand(&self) -> Option<PeriodicDemand> {
        let demand = PeriodicDemand::new(self.work_a_period(), self.period).ok()?;
        match self.card {
            Card::Ring(capacity) => {
                // Samples a second, rounded up: the ring fills no slower than that.
                let second = Duration::from_secs(1).as_nanos();
                let rate = (u64::from(self.batch) * second).div_ceil(self.period.as_nanos());
                demand.in_ring(self.batch, capacity, u32::try_from(rate).ok()?)
            }
            Card::Latch if self.lines == 1 => Some(demand.latched()),
            Card::Latch => Some(demand.due_within(self.period)),
        }
    }

    /// Samples of a line that have come `since` after the card started.
    pub(super) fn position(&self, since: Duration) -> u64 {
        let samples = u128::from(since.as_nanos()) * u128::from(self.batch);
        // No more samples than nanoseconds, unless a batch is longer than its period in them.
        (samples / u128::from(self.period.as_nanos())) as u64
    }
}
