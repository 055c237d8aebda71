//! The facts about a channel that its receiver knows beforehand, and the memory that it needs for
//! them.

use std::num::NonZeroU16;

use punctual_model::Duration;
use punctual_model::channel::LinearBounded;

use super::history::MOST_IN_FLIGHT;
use super::slot::words_for;

/// The facts about a channel that its receiver knows beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The channel's number, as sender and receiver agreed.
    pub channel: u32,
    /// The sender's traffic contract. Room is made for its burst and one message more, at most
    /// [`MOST_IN_FLIGHT`].
    pub arrivals: LinearBounded,
    /// The delay bound promised to the channel.
    pub delay_bound: Duration,
    /// The smallest fragments into which longer messages are cut. Smaller ones are refused: each
    /// costs room of its own.
    pub least_fragment: NonZeroU16,
}

impl Limits {
    pub(super) fn rooms(&self) -> u32 {
        let Self { arrivals, least_fragment, .. } = self;
        if arrivals.max_message() <= u32::from(least_fragment.get()) {
            return 0;
        }
        arrivals.max_burst().saturating_add(1).min(MOST_IN_FLIGHT)
    }

    /// Returns the bytes that a [`Reassembly`](super::Reassembly) needs for messages that are not
    /// complete; it allocates all of them when it is created.
    pub fn memory(&self) -> u64 {
        let max_message = self.arrivals.max_message();
        let bits = 8 * words_for(max_message, self.least_fragment.get()) as u64;
        u64::from(self.rooms()) * (u64::from(max_message) + bits)
    }
}
