//! Computes the most that the channels of one level and those below it can do.

use alloc::vec::Vec;

use punctual_model::channel::Sender;

use super::sender::{Sending, Shape, sum};
use super::window::{Interference, Interrupting};

/// The channels of a level and those below it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    /// Below the level: the longest block and packet.
    pub(super) blocking_block: u64,
    pub(super) blocking_packet: u64,
    /// Within the level: the longest packet and block, and the least time of a block with its
    /// change (β).
    pub(super) packet: u64,
    pub(super) block: u64,
    pub(super) least_block: u64,
    /// Of all channels: the longest block, the longest and shortest packet.
    pub(super) any_block: u64,
    pub(super) any_packet: u64,
    pub(super) shortest_packet: u64,
}

impl Level {
    /// Returns the level of the first `members` of `shapes`.
    pub(crate) fn of(sender: &Sender, shapes: &[Shape], members: usize) -> Self {
        Self::between(sender, shapes, &shapes[..members], &shapes[members..])
    }

    /// Returns the level of all `shapes`, each of which may also be below: what deadline order
    /// needs.
    pub(crate) fn of_all(sender: &Sender, shapes: &[Shape]) -> Self {
        Self::between(sender, shapes, shapes, shapes)
    }

    fn between(sender: &Sender, all: &[Shape], within: &[Shape], below: &[Shape]) -> Self {
        let best_effort = sender.best_effort_shape();
        let below = || below.iter().chain(&best_effort);
        let all = || all.iter().chain(&best_effort);
        let most = |values: &mut dyn Iterator<Item = u64>| values.max().unwrap_or(0);
        let least = |values: &mut dyn Iterator<Item = u64>| values.min().unwrap_or(0);
        Self {
            blocking_block: most(&mut below().map(|s| s.longest_block)),
            blocking_packet: most(&mut below().map(|s| s.longest_packet)),
            packet: most(&mut within.iter().map(|s| s.longest_packet)),
            block: most(&mut within.iter().map(|s| s.longest_block)),
            least_block: least(&mut within.iter().map(|s| s.least_block)),
            any_block: most(&mut all().map(|s| s.longest_block)),
            any_packet: most(&mut all().map(|s| s.longest_packet)),
            shortest_packet: least(&mut all().map(|s| s.shortest_packet)),
        }
    }

    /// Returns `θ·work`, rounded up: processing with the link interrupts that can come meanwhile.
    pub(super) fn stretched(&self, sender: &Sender, work: u64) -> u64 {
        let (shortest, c_link) = (self.shortest_packet, sender.link_scheduling_cost());
        let scaled = u128::from(work) * (u128::from(shortest) + u128::from(c_link));
        match (c_link, shortest) {
            (0, _) => work,
            (_, 0) => u64::MAX,
            _ => u64::try_from(scaled.div_ceil(u128::from(shortest))).unwrap_or(u64::MAX),
        }
    }

    /// Returns `interference` with the link scheduling that it lets through: while it runs the link
    /// may become free, and each time costs a further C_link.
    pub(super) fn interrupting(
        &self,
        sender: &Sender,
        interference: &[Interference],
    ) -> Vec<Interrupting> {
        let stretched = |other: &Interference| Interrupting {
            work: self.stretched(sender, other.work.as_nanos()),
            period: other.period.as_nanos(),
            jitter: other.jitter.as_nanos(),
        };
        interference.iter().map(stretched).collect()
    }

    /// Returns the time of a packet in O2 whatever the processor does: sent, then a block, then the
    /// link thread.
    pub(super) fn cycle(&self, sender: &Sender, packet: u64) -> u64 {
        sum(&[packet, sender.change(), self.any_block, turn_of_the_thread(sender)])
    }
}

/// Returns the time of the link thread in O2 for one packet: `cs + C_link`.
pub(super) fn turn_of_the_thread(sender: &Sender) -> u64 {
    sum(&[sender.change(), sender.link_scheduling_cost()])
}
