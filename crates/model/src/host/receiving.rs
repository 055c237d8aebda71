//! The costs of receiving, as measured and as charged.

use super::sending::content_rate;
use super::{Sampled, StepCharge};
use crate::channel::Framing;
use crate::time::Service;

/// Processor time of the receiving thread, by steps: those of sending (real-time channels, Table 1)
/// without the selection of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveCosts {
    /// Switching to the thread.
    pub switch: Service,
    /// Refilling the caches after the switch.
    pub cache: Service,
    /// The first of the packets that wait together, including the notification.
    pub first_packet: Service,
    /// Each further packet of these.
    pub packet: Service,
}

impl ReceiveCosts {
    /// Returns the cost of a packet for which the thread wakes up, taking the dearer of first and
    /// further packets, each at its percentile.
    pub fn per_packet(&self) -> Service {
        let woken = self.switch.saturating_add(self.cache);
        woken.saturating_add(self.first_packet.max(self.packet))
    }
}

/// The charge for receiving at admission.
pub type ReceiveCharge = StepCharge<ReceiveCosts>;

/// Processor time for packets that wait in a socket: from the receiving thread's look at the socket
/// until they are in the client's queue and the thread is about to sleep again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalCost {
    /// Bytes of each packet, without headers; at least 1.
    pub packet_bytes: u32,
    /// Datagrams: each packet is a message. Fragments: all packets are one message.
    pub framing: Framing,
    /// The number of packets, at least 1.
    pub packets: u32,
    /// The samples.
    pub sampled: Sampled,
}

impl ArrivalCost {
    /// Returns the key that identifies an entry and orders a profile: packet size, framing
    /// (datagrams first), packets.
    pub fn key(&self) -> (u32, bool, u32) {
        (self.packet_bytes, self.framing == Framing::Fragments, self.packets)
    }

    /// Returns the framing's name in files and reports.
    pub fn framing_name(&self) -> &'static str {
        let name = Framing::NAMES.iter().find(|(_, framing)| *framing == self.framing);
        name.map_or("", |(name, _)| name)
    }

    /// Returns the median rate at which such packets can be received if only the processor limits
    /// it (`r_max`; L4ATM, §3.1): bits of content a second, rounded down.
    pub fn bits_per_second(&self) -> u64 {
        content_rate(self.packet_bytes, self.packets, self.sampled.spread.p50())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Spread, Under};
    use crate::time::Duration;

    #[test]
    fn any_packet_is_charged_a_change_and_the_dearer_kind() {
        let micros = Service::from_micros;
        let costs = ReceiveCosts {
            switch: micros(2),
            cache: micros(3),
            first_packet: micros(20),
            packet: micros(7),
        };
        assert_eq!(costs.per_packet(), micros(25));
        let dear = ReceiveCosts { packet: micros(30), ..costs };
        assert_eq!(dear.per_packet(), micros(35));
        let most = ReceiveCosts { cache: Service::from_nanos(u64::MAX), ..costs };
        assert_eq!(most.per_packet(), Service::from_nanos(u64::MAX));
    }

    #[test]
    fn a_rate_is_content_by_the_median() {
        let spread = Spread::new(9, [1, 32, 50, 60].map(Duration::from_micros)).expect("valid");
        let (under, stolen) = (Under::Fifo, Duration::ZERO);
        let sampled = Sampled { under, spread, discarded: 0, stolen };
        let arrival =
            ArrivalCost { packet_bytes: 1_000, framing: Framing::Datagram, packets: 8, sampled };
        // 64,000 bits in 32 µs.
        assert_eq!(arrival.bits_per_second(), 2_000_000_000);
    }
}
