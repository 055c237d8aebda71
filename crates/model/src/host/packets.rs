//! The costs of sending and of receiving packets, as measured and as charged.

use super::{ReceiveCosts, Sampled, StepCharge};
use crate::channel::{Framing, SendCosts};
use crate::time::Duration;

/// The charge for sending at admission.
pub type SendCharge = StepCharge<SendCosts>;

/// Processor time for a message: from the wake-up of the sending thread until it sleeps again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageCost {
    /// Bytes of each of its packets, without headers; at least 1.
    pub packet_bytes: u32,
    /// Packets handed to the kernel at once, if the message has that many; at least 1.
    pub packets_per_block: u32,
    /// The number of packets of the message, at least 1.
    pub packets: u32,
    /// The samples.
    pub sampled: Sampled,
}

impl MessageCost {
    /// Returns the key that identifies an entry and orders a profile.
    pub fn key(&self) -> (u32, u32, u32) {
        (self.packet_bytes, self.packets_per_block, self.packets)
    }

    /// Returns the median rate at which such messages can be sent one after another if only the
    /// processor limits it (`t_max`; L4ATM, §3.1): bits of content a second, rounded down.
    pub fn bits_per_second(&self) -> u64 {
        content_rate(self.packet_bytes, self.packets, self.sampled.spread.p50())
    }
}

/// Returns the rate of `packets` packets sent in `took`, in bits a second, rounded down.
fn content_rate(packet_bytes: u32, packets: u32, took: Duration) -> u64 {
    let bits = u128::from(packet_bytes) * u128::from(packets) * 8 * 1_000_000_000;
    u64::try_from(bits / u128::from(took.as_nanos().max(1))).unwrap_or(u64::MAX)
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
    use super::ReceiveCosts;
    use super::*;
    use crate::Service;
    use crate::host::{Spread, Under};
    use crate::time::Duration;

    #[test]
    fn a_rate_is_bits_by_the_median() {
        let spread = Spread::new(9, [1, 40, 50, 60].map(Duration::from_micros)).expect("valid");
        let (under, stolen) = (Under::Fifo, Duration::ZERO);
        let sampled = Sampled { under, spread, discarded: 0, stolen };
        let message =
            MessageCost { packet_bytes: 1_000, packets_per_block: 8, packets: 8, sampled };
        // 64,000 bits in 40 µs.
        assert_eq!(message.bits_per_second(), 1_600_000_000);
        let none = Spread::new(1, [Duration::ZERO; 4]).expect("valid");
        let none = Sampled { spread: none, ..sampled };
        assert_eq!(MessageCost { sampled: none, ..message }.bits_per_second(), 64_000_000_000_000);
    }

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
