//! What comes out of a simulated sender.

use alloc::vec::Vec;

use punctual_model::channel::Channel;
use punctual_model::{Duration, Instant};

/// A message of a channel has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The channel's place in the order given.
    pub channel: usize,
    /// Its size.
    pub bytes: u32,
    /// When it came from its source.
    pub came: Instant,
    /// Its logical arrival: the bound counts from here.
    pub logical: Instant,
    /// When its last packet had left.
    pub left: Instant,
    /// Whether its source had kept its word.
    pub conforming: bool,
}

impl Sent {
    /// From the logical arrival on.
    pub fn delay(&self) -> Duration {
        self.left.saturating_since(self.logical)
    }
}

/// Who has the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupant {
    /// Packets of channels.
    Channels,
    /// Packets of what is promised nothing.
    BestEffort,
}

/// Why a message was not let in.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAccepted {
    /// Larger or smaller than declared: the promises of others rest on both.
    WrongSize {
        /// Its bytes.
        bytes: u32,
    },
    /// As many messages as there is room for have not left yet.
    NoRoom {
        /// Messages there is room for.
        room: u32,
    },
    /// It came before its time, and its channel loses such messages.
    TooEarly,
}

/// Takes what happens, as it happens.
pub trait Sink {
    /// The processor was `by`'s in `[from, to)`. One stretch may come in several parts, in order.
    fn occupied(&mut self, by: Occupant, from: Instant, to: Instant) {
        let _ = (by, from, to);
    }
    /// A message of a channel has left.
    fn sent(&mut self, message: Sent);
    /// A message that came at `at` was not let in.
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

/// A sink that counts, and keeps the longest delay of each channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delays {
    /// By channel, in the order given.
    pub channels: Vec<ChannelDelays>,
}

/// What [`Delays`] keeps of one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelDelays {
    /// The delay bound asked for.
    pub delay_bound: Duration,
    /// Messages that left.
    pub sent: u64,
    /// Those that took longer than the bound.
    pub late: u64,
    /// The longest from logical arrival to the last packet's end.
    pub longest: Duration,
    /// Messages that left and came faster than declared.
    pub not_conforming: u64,
    /// Messages not let in, but for those that were lost because they came faster than declared.
    pub refused: u64,
    /// Those.
    pub too_early: u64,
}

impl Delays {
    /// Nothing seen of `channels` yet.
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
