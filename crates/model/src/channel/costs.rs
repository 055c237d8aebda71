//! The costs of sending: link time, processor time and packetisation.

use thiserror::Error;

use super::rate::BitRate;
use crate::time::{Duration, Service};

/// Bits in a byte times picoseconds in a second: divided by a rate, it is the time of a byte.
const BIT_PICOS_PER_BYTE: u64 = 8 * 1_000_000_000_000;

/// A link and its adapter: `L_xmit(bytes) = startup + bytes × per byte` (real-time channels,
/// §3.1.4, with the slower of medium and transfer as the rate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    startup: Duration,
    picos_per_byte: u64,
    /// A lower bound on the time of every packet.
    least: Duration,
}

/// The processor time of each step of sending (real-time channels, Table 1). Zero by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendCosts {
    /// `C_switch`: switching from one handler to another.
    pub switch: Service,
    /// `C_cache`: the cache misses after a switch.
    pub cache: Service,
    /// `C_prot^first`: a message's first packet, including the work done once per message.
    pub first_packet: Service,
    /// `C_prot`: each further packet.
    pub packet: Service,
    /// `C_link`: selecting the next packet and starting its transmission.
    pub link_scheduling: Service,
}

/// The size of packets, and the number of packets that a handler makes before it may be preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packetisation {
    packet_bytes: u32,
    packets_per_block: u32,
}

/// The rule that the description of a sender breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CostError {
    /// The packet size is zero.
    #[error("the packet size is zero; it must be at least 1 byte")]
    ZeroPacket,
    /// The block has no packet: a handler must make progress.
    #[error("zero packets between preemption points; it must be at least 1")]
    ZeroBlock,
    /// The link is slower than the analysis supports.
    #[error("a link that takes {0}ps for each byte is slower than the slowest allowed, 1ms")]
    LinkTooSlow(u64),
}

impl Link {
    /// Makes a link that takes `startup` for each packet and `nanos_per_byte` for each byte.
    pub fn new(startup: Duration, nanos_per_byte: u64) -> Result<Self, CostError> {
        Self::with_picos(startup, nanos_per_byte.saturating_mul(1_000))
    }

    /// Makes a link from picoseconds per byte: 10 Gbit/s is 800.
    pub fn with_picos(startup: Duration, picos_per_byte: u64) -> Result<Self, CostError> {
        if picos_per_byte > 1_000_000_000 {
            return Err(CostError::LinkTooSlow(picos_per_byte));
        }
        Ok(Self { startup, picos_per_byte, least: Duration::ZERO })
    }

    /// Returns the same link with a packet time of at least `least`, for a producer that makes at
    /// most one packet in that time.
    #[must_use]
    pub fn at_least(self, least: Duration) -> Self {
        Self { least, ..self }
    }

    /// Returns the same link with `more` added to the start-up of each packet.
    #[must_use]
    pub fn later_by(self, more: Duration) -> Self {
        Self { startup: self.startup.saturating_add(more), ..self }
    }

    /// Returns the link with its times divided by `factor` (at least 1), rounded up.
    pub fn times_as_fast(self, factor: u64) -> Self {
        let factor = factor.max(1);
        Self {
            startup: Duration::from_nanos(self.startup.as_nanos().div_ceil(factor)),
            picos_per_byte: self.picos_per_byte.div_ceil(factor),
            least: Duration::from_nanos(self.least.as_nanos().div_ceil(factor)),
        }
    }

    /// Returns the same adapter on a medium of `rate`. The time of a byte is rounded up, as in a
    /// contract.
    pub fn at_rate(self, rate: BitRate) -> Self {
        Self { picos_per_byte: BIT_PICOS_PER_BYTE.div_ceil(rate.bits_per_second()), ..self }
    }

    /// Returns the rate in bits a second, rounded down; `None` if a byte takes no time or too long
    /// to be a rate.
    pub fn rate(self) -> Option<BitRate> {
        BitRate::new(BIT_PICOS_PER_BYTE.checked_div(self.picos_per_byte)?).ok()
    }

    /// Returns `L_xmit`: the time from the start of a packet of `bytes` to its end, rounded up.
    pub fn transmission_time(self, bytes: u32) -> Duration {
        // At most 2³² × 10⁹ ps, which fits.
        let nanos = (u64::from(bytes) * self.picos_per_byte).div_ceil(1_000);
        self.startup.saturating_add(Duration::from_nanos(nanos)).max(self.least)
    }
}

impl SendCosts {
    /// Returns `cs = C_switch + C_cache`, the cost of each switch of handler.
    pub fn change_of_handler(self) -> Service {
        self.switch.saturating_add(self.cache)
    }

    /// Returns the cost of a packet for which a thread wakes up, taking the dearer of first and
    /// further packets.
    pub fn per_packet(self) -> Service {
        let made = self.first_packet.max(self.packet).saturating_add(self.link_scheduling);
        self.change_of_handler().saturating_add(made)
    }
}

impl Packetisation {
    /// Makes packets of at most `packet_bytes` (`S`), with a preemption point after each
    /// `packets_per_block` (`P`).
    pub fn new(packet_bytes: u32, packets_per_block: u32) -> Result<Self, CostError> {
        if packet_bytes == 0 {
            return Err(CostError::ZeroPacket);
        }
        if packets_per_block == 0 {
            return Err(CostError::ZeroBlock);
        }
        Ok(Self { packet_bytes, packets_per_block })
    }

    /// Returns `S`, the most bytes of a packet.
    pub fn packet_bytes(self) -> u32 {
        self.packet_bytes
    }

    /// Returns `P`, the number of packets between preemption points.
    pub fn packets_per_block(self) -> u32 {
        self.packets_per_block
    }

    /// Returns `N`, the number of packets of a message.
    pub fn packets_of(self, message_bytes: u32) -> u32 {
        message_bytes.div_ceil(self.packet_bytes)
    }

    /// Returns the bytes of a message's last packet. The message must not be empty.
    pub fn last_packet_of(self, message_bytes: u32) -> u32 {
        message_bytes - (self.packets_of(message_bytes) - 1) * self.packet_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_as_in_section_4_1() {
        let cut = Packetisation::new(4096, 2).expect("valid");
        for (message, packets, last) in
            [(1, 1, 1), (4096, 1, 4096), (4097, 2, 1), (32768, 8, 4096), (30000, 8, 1328)]
        {
            assert_eq!((cut.packets_of(message), cut.last_packet_of(message)), (packets, last));
        }
    }

    #[test]
    fn transmission_takes_start_up_and_bytes_rounded_up() {
        let link = Link::new(Duration::from_micros(40), 50).expect("valid");
        assert_eq!(link.transmission_time(4096), Duration::from_nanos(244_800));
        let ten_gigabit = Link::with_picos(Duration::ZERO, 800).expect("valid");
        assert_eq!(ten_gigabit.transmission_time(1), Duration::from_nanos(1));
        assert!(Link::new(Duration::ZERO, u64::MAX).is_err());
        assert_eq!(Packetisation::new(0, 1), Err(CostError::ZeroPacket));
        assert_eq!(Packetisation::new(1, 0), Err(CostError::ZeroBlock));
    }
}
