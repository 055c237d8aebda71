//! What sending costs a host, as measured and as charged.

use alloc::string::String;

use super::{Percentile, Spread, Under};
use crate::channel::SendCosts;
use crate::time::Duration;

/// What admission charges for sending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendCharge {
    /// The steps (real-time channels, Table 1).
    pub costs: SendCosts,
    /// By which way the packets went, in words: a kind of link, or an address. `None`: not said.
    pub path: Option<String>,
    /// The largest packet that it covers, in bytes without headers; at least 1. `None`: not said.
    pub largest_packet: Option<u32>,
    /// The percentile of all steps. `None`: not said.
    pub percentile: Option<Percentile>,
}

/// The processor's time for a message: from the moment when the thread that carries channels is woken for
/// it until that thread goes to sleep again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageCost {
    /// Bytes of each of its packets, without headers; at least 1.
    pub packet_bytes: u32,
    /// Packets that were handed to the kernel in one go, if there were as many; at least 1.
    pub packets_per_block: u32,
    /// How many packets it had; at least 1.
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

impl MessageCost {
    /// By what messages are told apart, and the order of a profile.
    pub fn key(&self) -> (u32, u32, u32) {
        (self.packet_bytes, self.packets_per_block, self.packets)
    }

    /// The rate at which half of such messages would leave, one after another, if nothing but the
    /// processor limited them (`t_max`; L4ATM, §3.1): bits of content a second, rounded down.
    pub fn bits_per_second(&self) -> u64 {
        content_rate(self.packet_bytes, self.packets, self.spread.p50())
    }
}

/// Bits a second of so many packets in that time, rounded down.
pub(super) fn content_rate(packet_bytes: u32, packets: u32, took: Duration) -> u64 {
    let bits = u128::from(packet_bytes) * u128::from(packets) * 8 * 1_000_000_000;
    u64::try_from(bits / u128::from(took.as_nanos().max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_bits_by_the_median() {
        let spread = Spread::new(9, [1, 40, 50, 60].map(Duration::from_micros)).expect("valid");
        let message = MessageCost {
            packet_bytes: 1_000,
            packets_per_block: 8,
            packets: 8,
            under: Under::Fifo,
            spread,
            discarded: 0,
            stolen: Duration::ZERO,
        };
        // 64,000 bits in 40 µs.
        assert_eq!(message.bits_per_second(), 1_600_000_000);
        let none = Spread::new(1, [Duration::ZERO; 4]).expect("valid");
        assert_eq!(MessageCost { spread: none, ..message }.bits_per_second(), 64_000_000_000_000);
    }
}
