//! A message on its way, block by block.

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
    /// Of which channel.
    pub channel: u32,
    /// Where in its message it begins, in bytes.
    pub offset: u32,
    /// How long it is; all packets but its last have the packet size.
    pub bytes: u32,
    /// Whether the message ends with it.
    pub is_last: bool,
    /// When its message counts as arrived.
    pub logical: Instant,
    /// When its message must have left; `None` of best effort.
    pub absolute_deadline: Option<Instant>,
}

/// What follows for the channel whose block was sent.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Its message goes on when its turn comes.
    MoreOfIt,
    /// Its message is complete: the next one may be offered.
    Complete {
        /// When the last packet has left, as the link is reckoned.
        leaves_by: Instant,
    },
    /// It was closed meanwhile.
    Closed,
}

impl Message {
    pub(super) fn new(bytes: u32, logical: Instant) -> Self {
        Self { bytes, sent: 0, logical }
    }

    /// The block that leaves next.
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

    /// The block has been sent. Whether the message is complete.
    pub(super) fn advance(&mut self, block: &Block) -> bool {
        self.sent += block.bytes;
        self.sent == self.bytes
    }
}

impl Block {
    /// For how long it keeps the link busy: each of its packets starts anew.
    pub fn time_on(&self, link: Link, cut: Packetisation) -> Duration {
        let (full, last) = (cut.packets_of(self.bytes) - 1, cut.last_packet_of(self.bytes));
        let of_full = link.transmission_time(cut.packet_bytes());
        let full = of_full.checked_mul(u64::from(full)).unwrap_or(Duration::MAX);
        full.saturating_add(link.transmission_time(last))
    }
}
