//! The hold model: a packet that leaves is followed by the next of its channel.

use punctual_bench::pairs::nanos_per_op;
use punctual_model::{Duration, Instant, Rank};
use punctual_policy::queues::{Class, ServiceOrder, ThreeQueues, Urgency};

/// The time a packet takes on the link.
const SLOT: Duration = Duration::from_micros(1);

/// Queues of current and early packets.
pub(crate) trait Queues {
    fn put(&mut self, now: Instant, logical: Instant, urgency: Urgency, channel: u32);
    fn take(&mut self, now: Instant) -> Option<u32>;
}

impl Queues for ThreeQueues<u32> {
    fn put(&mut self, now: Instant, logical: Instant, urgency: Urgency, channel: u32) {
        let class = Class::RealTime { logical, urgency };
        self.push(now, class, channel).expect("a place for each channel");
    }

    fn take(&mut self, now: Instant) -> Option<u32> {
        self.pop(now)
    }
}

pub(crate) struct Hold<Q> {
    queues: Q,
    channels: u32,
    now: Instant,
    draws: u64,
    digest: u64,
}

impl<Q: Queues> Hold<Q> {
    /// Gives each channel a packet, and runs until all of them have left some times.
    pub(crate) fn new(channels: u32, queues: Q) -> Self {
        let draws = 88_172_645_463_325_252;
        let mut hold = Self { queues, channels, now: Instant::ZERO, draws, digest: 0 };
        for channel in 0..channels {
            hold.put(channel, Instant::ZERO);
        }
        hold.run(4 * u64::from(channels));
        hold
    }

    pub(crate) fn nanos_per_packet(&mut self, packets: u64) -> f64 {
        nanos_per_op(packets, || self.run(packets))
    }

    /// Returns a digest of the packets that left, and their order.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn queues(&self) -> &Q {
        &self.queues
    }

    /// Returns a period between 0.2 and 1.8 times the mean, which is as long as one packet of each
    /// channel takes. It is computed, because a table would cost both the same miss.
    fn period(&self, channel: u32) -> u64 {
        let mean = SLOT.as_nanos() * u64::from(self.channels);
        let part = u64::from(channel.wrapping_mul(2_654_435_769) >> 16);
        mean / 5 + ((mean * 8 / 5 * part) >> 16)
    }

    fn run(&mut self, packets: u64) {
        for _ in 0..packets {
            self.now += SLOT;
            let Some(channel) = self.queues.take(self.now) else { continue };
            self.digest = self.digest.rotate_left(5) ^ u64::from(channel);
            // A generator that takes a nanosecond, a cost to both.
            self.draws ^= self.draws << 13;
            self.draws ^= self.draws >> 7;
            self.draws ^= self.draws << 17;
            let is_early = (self.draws >> 40) % 10 < 3;
            let wait = if is_early {
                let part = self.draws & 0xffff;
                (self.period(channel) * 2 * part) >> 16
            } else {
                0
            };
            self.put(channel, self.now + Duration::from_nanos(wait));
        }
    }

    fn put(&mut self, channel: u32, logical: Instant) {
        let bound = Duration::from_nanos(self.period(channel));
        let urgency = ServiceOrder::Deadline.urgency(Rank(channel), bound, logical);
        self.queues.put(self.now, logical, urgency, channel);
    }
}
