//! A soft device without its signal processing: batches of samples that come every period, and a
//! card that loses those not taken in time.

use punctual_analysis::supply::PeriodicDemand;
use punctual_model::{Duration, Service};

/// A device, and the work that its driver must do for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// The time from one interrupt to the next.
    pub period: Duration,
    /// Samples of one line that come in a period, evenly.
    pub batch: u32,
    /// Processor time for one line's batch.
    pub work: Service,
    /// The largest number of samples taken from a ring for one interrupt. The study's driver called
    /// its code once for each interrupt, so a batch; [`punctual_modem::Bank`] takes all pending
    /// samples.
    pub piece: u32,
    /// Lines, served one after the other.
    pub lines: u32,
    /// The card's treatment of samples that wait.
    pub card: Card,
}

/// A card's treatment of samples that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Card {
    /// They wait in a ring of this size, and the next service finds all of them. When a ring's
    /// length is pending, the count wraps to zero and they are lost (soft modem study, §3.1). The
    /// answer to them must be written before its slots are played, a ring later.
    Ring(u32),
    /// A batch not begun before the next interrupt is lost, as by the study's driver ("the code
    /// appears to sometimes not successfully process an old interrupt's work once a new one has
    /// occurred", §6.6).
    Latch,
}

/// Slots in each ring of the study's card (§3.1).
pub const RING: u32 = 512;

impl Device {
    /// Returns the study's modem: 1.84 ms every 12.5 ms (§6.6), 90 samples at 7.2 kHz.
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

    /// Returns the processor time for all lines in each period.
    pub fn work_a_period(&self) -> Service {
        self.work * u64::from(self.lines)
    }

    /// Returns the demand of the device for the analysis, or `None` if it needs more than a whole
    /// CPU, or if its ring holds no more than a batch.
    ///
    /// A ring requires each batch to be done before the ring is full, which is enough if each is
    /// answered before the next is taken. A driver that takes all waiting samples at once answers
    /// the oldest of them later. A latch with one line requires gaps shorter than the period. With
    /// more lines, the last one is begun only after the work of all others, so each period's work
    /// is required within the period: this is sufficient, and exceeds the need by one line's work.
    pub fn demand(&self) -> Option<PeriodicDemand> {
        let demand = PeriodicDemand::new(self.work_a_period(), self.period).ok()?;
        match self.card {
            Card::Ring(capacity) => {
                // Samples a second, rounded up: the ring fills no faster than that.
                let second = Duration::from_secs(1).as_nanos();
                let rate = (u64::from(self.batch) * second).div_ceil(self.period.as_nanos());
                demand.in_ring(self.batch, capacity, u32::try_from(rate).ok()?)
            }
            Card::Latch if self.lines == 1 => Some(demand.latched()),
            Card::Latch => Some(demand.due_within(self.period)),
        }
    }

    /// Returns the number of samples of a line that have come `since` after the card started.
    pub(super) fn position(&self, since: Duration) -> u64 {
        let samples = u128::from(since.as_nanos()) * u128::from(self.batch);
        // No more samples than nanoseconds, unless a batch has more samples than its period has
        // nanoseconds.
        (samples / u128::from(self.period.as_nanos())) as u64
    }
}
