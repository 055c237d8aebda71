//! The costs of sending, as measured and as charged.

use super::{Sampled, StepCharge};
use crate::channel::SendCosts;
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
pub(super) fn content_rate(packet_bytes: u32, packets: u32, took: Duration) -> u64 {
    let bits = u128::from(packet_bytes) * u128::from(packets) * 8 * 1_000_000_000;
    u64::try_from(bits / u128::from(took.as_nanos().max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Spread, Under};

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
}
