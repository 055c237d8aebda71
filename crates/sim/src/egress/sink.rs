//! Receives the output of a simulated sender.

use alloc::vec::Vec;

use punctual_model::channel::Channel;
use punctual_model::{Duration, Instant};

/// A message of a channel that has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The index of the channel in the given order.
    pub channel: usize,
    /// Its size in bytes.
    pub bytes: u32,
    /// The instant at which it came from its source.
    pub came: Instant,
    /// The logical arrival, from which the delay bound counts.
    pub logical: Instant,
    /// The instant at which its last packet had left.
    pub left: Instant,
    /// True if it conformed to the channel's contract.
    pub conforming: bool,
}

impl Sent {
    /// Returns the delay from the logical arrival.
    pub fn delay(&self) -> Duration {
        self.left.saturating_since(self.logical)
    }
}

/// The sender that has the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupant {
    /// Channels, sending packets.
    Channels,
    /// Best-effort senders, sending packets.
    BestEffort,
}

/// The reason why a message was refused.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAccepted {
    /// Its size is not the declared one. The promises to other channels rest on both limits of the
    /// size.
    WrongSize {
        /// Its size in bytes.
        bytes: u32,
    },
    /// As many messages as there is room for have not left yet.
    NoRoom {
        /// The number of messages for which there is room.
        room: u32,
    },
    /// It came too early, and its channel drops such messages.
    TooEarly,
}

/// A receiver of the events, as they happen.
pub trait Sink {
    /// Records that `by` had the processor in `[from, to)`. One stretch may come in several parts,
    /// in order.
    fn occupied(&mut self, by: Occupant, from: Instant, to: Instant) {
        let _ = (by, from, to);
    }
    /// Records that a message of a channel has left.
    fn sent(&mut self, message: Sent);
    /// Records that a message that came at `at` was refused.
    fn refused(&mut self, channel: usize, at: Instant, why: NotAccepted);
}

impl<K: Sink> Sink for &mut K {
    fn occupied(&mut self, by: Occupant, from: Instant, to: Instant) {
        (**self).occupied(by, from, to);
    }

    fn sent(&mut self, message: Sent) {
        (**self).sent(message);
    }

    fn refused(&mut self, channel: usize, at: Instant, why: NotAccepted) {
        (**self).refused(channel, at, why);
    }
}

/// A sink that counts messages and keeps the longest delay of each channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delays {
    /// The delays by channel, in the given order.
    pub channels: Vec<ChannelDelays>,
}

/// The counts and the longest delay of one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelDelays {
    /// The requested delay bound.
    pub delay_bound: Duration,
    /// Messages that left.
    pub sent: u64,
    /// Messages that left with a delay above the bound.
    pub late: u64,
    /// The longest time from the logical arrival to the end of the last packet.
    pub longest: Duration,
    /// Messages that left although they came faster than declared.
    pub not_conforming: u64,
    /// Messages that were refused, except those that were dropped because they came too early.
    pub refused: u64,
    /// Messages that were dropped because they came faster than declared.
    pub too_early: u64,
}

impl Delays {
    /// Makes empty counts for `channels`.
    pub fn new(channels: &[Channel]) -> Self {
        let channel = |channel: &Channel| ChannelDelays {
            delay_bound: channel.delay_bound(),
            sent: 0,
            late: 0,
            longest: Duration::ZERO,
            not_conforming: 0,
            refused: 0,
            too_early: 0,
        };
        Self { channels: channels.iter().map(channel).collect() }
    }
}

impl Sink for Delays {
    fn sent(&mut self, message: Sent) {
        let channel = &mut self.channels[message.channel];
        channel.sent += 1;
        channel.late += u64::from(message.delay() > channel.delay_bound);
        channel.longest = channel.longest.max(message.delay());
        channel.not_conforming += u64::from(!message.conforming);
    }

    fn refused(&mut self, channel: usize, _at: Instant, why: NotAccepted) {
        let channel = &mut self.channels[channel];
        match why {
            NotAccepted::TooEarly => channel.too_early += 1,
            NotAccepted::WrongSize { .. } | NotAccepted::NoRoom { .. } => channel.refused += 1,
        }
    }
}
