//! The sending host as the bounds see it, and messages as packets and blocks.

use alloc::vec::Vec;

use punctual_model::channel::{BestEffort, Channel, SendCosts, Sender};

/// The sizes of one source's messages, cut into packets; all times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// `N`, of the largest message.
    pub(crate) packets: u64,
    /// `N_blocks` of the largest message.
    pub(crate) blocks: u64,
    /// The longest of all blocks.
    pub(crate) longest_block: u64,
    /// The least time of any block, with the change before it.
    pub(crate) least_block: u64,
    /// `L_xmit` of the longest packet.
    pub(crate) longest_packet: u64,
    /// `L_xmit` of the shortest packet of any message.
    pub(crate) shortest_packet: u64,
    /// `L_xmit` of the largest message's last packet.
    pub(crate) last_packet: u64,
}

impl Shape {
    fn new(sender: &Sender, least: SendCosts, smallest: u32, largest: u32) -> Self {
        let cut = sender.packetisation;
        let per_block = u64::from(cut.packets_per_block());
        let (first, further) = (sender.first_packet(), sender.costs.packet.as_nanos());
        let packets = u64::from(cut.packets_of(largest));
        let blocks = (packets - 1) / per_block + 1;
        let first_block_of = |first: u64, further: u64| {
            sum(&[first, (packets.min(per_block) - 1).saturating_mul(further)])
        };
        // If all messages have as many packets, the last block is known; otherwise it may be one
        // packet.
        let one_count = packets == u64::from(cut.packets_of(smallest));
        let shortest_block_of = |first: u64, further: u64| {
            let last_block = ((packets - 1) % per_block + 1).saturating_mul(further);
            match (one_count, blocks) {
                (true, 1) => first_block_of(first, further),
                (true, _) => first_block_of(first, further).min(last_block),
                (false, _) => first.min(further),
            }
        };
        let least_block = shortest_block_of(
            first.min(least.first_packet.as_nanos()),
            further.min(least.packet.as_nanos()),
        );
        let least_change = sender.change().min(least.change_of_handler().as_nanos());
        let first_block = first_block_of(first, further);
        let smallest_last = if one_count { cut.last_packet_of(smallest) } else { 1 };
        let time = |bytes| sender.link.transmission_time(bytes).as_nanos();
        let full_block = per_block.saturating_mul(further);
        Self {
            packets,
            blocks,
            longest_block: if blocks > 1 { first_block.max(full_block) } else { first_block },
            least_block: sum(&[least_change, least_block]),
            longest_packet: time(largest.min(cut.packet_bytes())),
            shortest_packet: time(smallest_last),
            last_packet: time(cut.last_packet_of(largest)),
        }
    }
}

/// A sending host in the terms of the formulas.
pub(crate) trait Sending {
    fn shape_of(&self, channel: &Channel, least: SendCosts) -> Shape;
    fn shapes_of(&self, channels: &[Channel], least: SendCosts) -> Vec<Shape>;
    fn best_effort_shape(&self) -> Option<Shape>;
    /// Returns `C_prot^first`.
    fn first_packet(&self) -> u64;
    /// Returns `C_prot`.
    fn packet(&self) -> u64;
    /// Returns `C_link`.
    fn link_scheduling_cost(&self) -> u64;
    /// Returns `cs`.
    fn change(&self) -> u64;
}

impl Sending for Sender {
    fn shape_of(&self, channel: &Channel, least: SendCosts) -> Shape {
        Shape::new(self, least, channel.arrivals().min_message(), channel.arrivals().max_message())
    }

    fn shapes_of(&self, channels: &[Channel], least: SendCosts) -> Vec<Shape> {
        channels.iter().map(|channel| self.shape_of(channel, least)).collect()
    }

    fn best_effort_shape(&self) -> Option<Shape> {
        match self.best_effort {
            BestEffort::None => None,
            // Nothing is concluded from how fast its blocks are.
            BestEffort::Sized { least, most } => {
                Some(Shape::new(self, SendCosts::default(), least, most))
            }
        }
    }

    fn first_packet(&self) -> u64 {
        self.costs.first_packet.as_nanos()
    }

    fn packet(&self) -> u64 {
        self.costs.packet.as_nanos()
    }

    fn link_scheduling_cost(&self) -> u64 {
        self.costs.link_scheduling.as_nanos()
    }

    fn change(&self) -> u64 {
        self.costs.change_of_handler().as_nanos()
    }
}

/// Returns the sum, or the largest number there is, which every bound treats as "no bound".
pub(crate) fn sum(terms: &[u64]) -> u64 {
    terms.iter().fold(0, |sum, &term| sum.saturating_add(term))
}
