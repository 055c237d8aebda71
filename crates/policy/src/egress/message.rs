//! A message during transmission, block by block.

use punctual_model::channel::{Link, Packetisation};
use punctual_model::{Duration, Instant};

/// The first message of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    bytes: u32,
    sent: u32,
    pub(super) logical: Instant,
}

/// Packets of one message that leave together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The channel's number.
    pub channel: u32,
    /// The offset of the block in its message, in bytes.
    pub offset: u32,
    /// The length of the block in bytes. All packets but the last have the packet size.
    pub bytes: u32,
    /// True if the message ends with this block.
    pub is_last: bool,
    /// The time at which its message counts as arrived.
    pub logical: Instant,
    /// The time by which its message must have left; `None` for best effort.
    pub absolute_deadline: Option<Instant>,
}

/// The state of the channel after one of its blocks was sent.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The message has more blocks.
    MorePackets,
    /// The message is complete: the next one may be offered.
    Complete {
        /// The time at which the last packet leaves, as computed for the link.
        leaves_by: Instant,
    },
    /// The channel was closed in the meantime.
    Closed,
}

impl Message {
    pub(super) fn new(bytes: u32, logical: Instant) -> Self {
        Self { bytes, sent: 0, logical }
    }

    /// Returns the next block.
    pub(super) fn block(
        &self,
        channel: u32,
        cut: Packetisation,
        absolute_deadline: Option<Instant>,
    ) -> Block {
        let left = self.bytes - self.sent;
        let most = cut.packet_bytes().saturating_mul(cut.packets_per_block());
        Block {
            channel,
            offset: self.sent,
            bytes: left.min(most),
            is_last: left <= most,
            logical: self.logical,
            absolute_deadline,
        }
    }

    /// Records that the block was sent. Returns true if the message is complete.
    pub(super) fn advance(&mut self, block: &Block) -> bool {
        self.sent += block.bytes;
        self.sent == self.bytes
    }
}

impl Block {
    /// Returns the time that the block occupies the link. Each of its packets has its own start-up.
    pub fn time_on(&self, link: Link, cut: Packetisation) -> Duration {
        let (full, last) = (cut.packets_of(self.bytes) - 1, cut.last_packet_of(self.bytes));
        let of_full = link.transmission_time(cut.packet_bytes());
        let full = of_full.checked_mul(u64::from(full)).unwrap_or(Duration::MAX);
        full.saturating_add(link.transmission_time(last))
    }
}
