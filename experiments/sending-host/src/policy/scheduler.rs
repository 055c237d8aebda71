//! Selects the packet that leaves next, and the time of the decision.

use punctual_model::Instant;
use punctual_model::channel::LinkScheduling;
use punctual_policy::queues::{Class, Full, ThreeQueues};

/// The link scheduler of one link (real-time channels, §3.1.2): one packet at a time, the most
/// urgent waiting one, never interrupted.
#[derive(Clone, Debug)]
pub struct LinkScheduler<P> {
    option: LinkScheduling,
    queues: ThreeQueues<P>,
    busy: bool,
}

/// The position of the sender's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A handler has just made a packet and goes on.
    PacketMade,
    /// The completion interrupt.
    Completed,
    /// A handler has yielded, or the processor has nothing to do.
    Yield,
}

impl<P> LinkScheduler<P> {
    /// Makes a free link without packets; room as for [`ThreeQueues::new`].
    pub fn new(option: LinkScheduling, real_time_room: usize, best_effort_room: usize) -> Self {
        Self { option, queues: ThreeQueues::new(real_time_room, best_effort_room), busy: false }
    }

    /// Adds a packet that waits from `now` on.
    pub fn ready(&mut self, now: Instant, class: Class, packet: P) -> Result<(), Full<P>> {
        self.queues.push(now, class, packet)
    }

    /// Returns the packet to start here and now, if any: O1 decides where packets are made and in
    /// the completion interrupt, O2 where the processor is free to run its thread. The caller
    /// starts the packet; until [`completed`](Self::completed) there is no other.
    #[must_use]
    pub fn pick(&mut self, now: Instant, at: Point) -> Option<P> {
        let here = match self.option {
            LinkScheduling::InInterrupt => at != Point::Yield,
            LinkScheduling::InThread => at == Point::Yield,
        };
        if self.busy || !here {
            return None;
        }
        let packet = self.queues.pop(now);
        self.busy = packet.is_some();
        packet
    }

    /// Records that the packet last picked has left, or was not sent after all.
    pub fn completed(&mut self) {
        self.busy = false;
    }

    /// Returns whether a packet is being started or sent.
    pub fn is_busy(&self) -> bool {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(option: LinkScheduling) -> LinkScheduler<char> {
        let mut link = LinkScheduler::new(option, 0, 2);
        for packet in ['a', 'b'] {
            link.ready(Instant::ZERO, Class::BestEffort, packet).expect("room");
        }
        link
    }

    #[test]
    fn o1_decides_where_packets_are_made_and_have_left() {
        let mut link = of(LinkScheduling::InInterrupt);
        assert_eq!(link.pick(Instant::ZERO, Point::Yield), None);
        assert_eq!(link.pick(Instant::ZERO, Point::PacketMade), Some('a'));
        assert_eq!(link.pick(Instant::ZERO, Point::PacketMade), None);
        link.completed();
        assert_eq!(link.pick(Instant::ZERO, Point::Completed), Some('b'));
        link.completed();
        assert_eq!(link.pick(Instant::ZERO, Point::Completed), None);
        assert!(!link.is_busy());
    }

    #[test]
    fn o2_decides_where_the_processor_is_free() {
        let mut link = of(LinkScheduling::InThread);
        assert_eq!(link.pick(Instant::ZERO, Point::PacketMade), None);
        assert_eq!(link.pick(Instant::ZERO, Point::Yield), Some('a'));
        link.completed();
        assert_eq!(link.pick(Instant::ZERO, Point::Completed), None);
        assert_eq!(link.pick(Instant::ZERO, Point::Yield), Some('b'));
        assert!(link.is_busy());
    }
}
