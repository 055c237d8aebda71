//! What a receiver knows of a channel beforehand, and the memory that it needs for it.

use std::num::NonZeroU16;

use punctual_model::Duration;
use punctual_model::channel::LinearBounded;

use super::history::MOST_IN_FLIGHT;
use super::slot::words_for;

/// What a receiver knows of a channel beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Its number, as sender and receiver agreed.
    pub channel: u32,
    /// What its sender promised. Room is made for its burst and one message more, at most
    /// [`MOST_IN_FLIGHT`].
    pub arrivals: LinearBounded,
    /// What was promised to it.
    pub delay_bound: Duration,
    /// The smallest pieces that longer messages are cut into. Smaller ones are refused: each costs
    /// room of its own.
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

    /// Bytes that a [`Reassembly`] needs for messages that are not complete; all are taken when it is
    /// made.
    pub fn memory(&self) -> u64 {
        let max_message = self.arrivals.max_message();
        let bits = 8 * words_for(max_message, self.least_fragment.get()) as u64;
        u64::from(self.rooms()) * (u64::from(max_message) + bits)
    }
}
