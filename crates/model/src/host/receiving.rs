//! What receiving costs a host, as measured and as charged.

use alloc::string::String;

use super::sending::content_rate;
use super::{Percentile, Spread, Under};
use crate::channel::Framing;
use crate::time::{Duration, Service};

/// Processor time of the thread that receives, by its steps: those of sending (real-time channels,
/// Table 1), of which receiving has no picking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveCosts {
    /// Changing to the thread.
    pub switch: Service,
    /// Refilling the caches after it.
    pub cache: Service,
    /// The first packet of those that wait together: hearing of them is in it.
    pub first_packet: Service,
    /// Each further packet of those.
    pub packet: Service,
}

impl ReceiveCosts {
    /// A packet that the thread wakes up for, of whichever kind is dearer, each at its percentile.
    pub fn per_packet(&self) -> Service {
        let woken = self.switch.saturating_add(self.cache);
        woken.saturating_add(self.first_packet.max(self.packet))
    }
}

/// What admission charges for receiving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiveCharge {
    /// The steps.
    pub costs: ReceiveCosts,
    /// By which way the packets came, in words. `None`: not said.
    pub path: Option<String>,
    /// The largest packet that it covers, in bytes without headers; at least 1. `None`: not said.
    pub largest_packet: Option<u32>,
    /// The percentile of all steps. `None`: not said.
    pub percentile: Option<Percentile>,
}

/// The processor's time for packets that wait in a socket: from the moment when the thread that receives
/// looks until they are in the client's queue and it would go to sleep again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalCost {
    /// Bytes of each packet, without headers; at least 1.
    pub packet_bytes: u32,
    /// Whether each is a message, or all are one.
    pub framing: Framing,
    /// How many there were; at least 1.
    pub packets: u32,
    /// Under which class.
    pub under: Under,
    /// How the time spreads.
    pub spread: Spread,
    /// Samples thrown away, because the hypervisor took processor time while they were taken.
    pub discarded: u32,
    /// How much it took, all CPUs together.
    pub stolen: Duration,
}

impl ArrivalCost {
    /// By what they are told apart, and the order of a profile: packet size, framing (datagrams first),
    /// packets.
    pub fn key(&self) -> (u32, bool, u32) {
        (self.packet_bytes, self.framing == Framing::Fragments, self.packets)
    }

    /// Its framing by the name that it has in files and reports.
    pub fn framing_name(&self) -> &'static str {
        let name = Framing::NAMES.iter().find(|(_, framing)| *framing == self.framing);
        name.map_or("", |(name, _)| name)
    }

    /// The rate at which half of such packets would be received, if nothing but the processor limited it
    /// (`r_max`; L4ATM, §3.1): bits of content a second, rounded down.
    pub fn bits_per_second(&self) -> u64 {
        content_rate(self.packet_bytes, self.packets, self.spread.p50())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let arrival = ArrivalCost {
            packet_bytes: 1_000,
            framing: Framing::Datagram,
            packets: 8,
            under: Under::Fifo,
            spread,
            discarded: 0,
            stolen: Duration::ZERO,
        };
        // 64,000 bits in 32 µs.
        assert_eq!(arrival.bits_per_second(), 2_000_000_000);
    }
}
