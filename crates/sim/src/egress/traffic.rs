//! Provides the sources of messages, and receives the output of a simulated sender.

use alloc::vec::Vec;

use punctual_model::channel::{Channel, LinearBounded, Sensitivity};
use punctual_model::{Duration, Instant};
use rand::{Rng, RngExt};

/// A message that comes from its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The instant at which it comes. An instant before that of the previous message counts as that
    /// one.
    pub at: Instant,
    /// Its size in bytes.
    pub bytes: u32,
}

/// Sends one message of `bytes` at `first` and after every `period`. With a period below the
/// declared one, the source violates its contract.
pub fn periodic(first: Instant, period: Duration, bytes: u32) -> impl Iterator<Item = Message> {
    let mut next = first;
    core::iter::from_fn(move || {
        let message = Message { at: next, bytes };
        next = next.saturating_add(period);
        Some(message)
    })
}

/// Sends all that `traffic` allows as soon as it allows it: the whole burst at `first`, then one
/// message after every `I_min`, all of the largest size.
pub fn greedy(traffic: LinearBounded, first: Instant) -> impl Iterator<Item = Message> {
    let bytes = traffic.max_message();
    let burst = core::iter::repeat_n(Message { at: first, bytes }, traffic.max_burst() as usize);
    let spacing = traffic.min_inter_arrival();
    burst.chain(periodic(first.saturating_add(spacing), spacing, bytes))
}

/// Sends all that credits allow: those of one interval at `first`, those of the next as late as
/// allowed, and those of all later intervals as early as allowed. Twice the credits of an interval
/// thus come at once. All messages have the largest size. The first interval begins at the origin
/// of time.
pub fn credited(
    traffic: LinearBounded,
    sensitivity: Sensitivity,
    first: Instant,
) -> impl Iterator<Item = Message> {
    let (bytes, messages) = (traffic.max_message(), u64::from(sensitivity.pdus()));
    let interval = traffic.min_inter_arrival() * messages;
    let of_first = first.as_nanos() / interval.as_nanos();
    let begins = move |nth: u64| {
        let since = interval.checked_mul(of_first.saturating_add(nth));
        Instant::ZERO.saturating_add(since.unwrap_or(Duration::MAX))
    };
    let at = move |nth| match nth {
        0 => first,
        1 => begins(2) - Duration::from_nanos(1),
        _ => begins(nth),
    };
    (0..).map(move |index: u64| Message { at: at(index / messages), bytes })
}

/// Sends conforming messages of drawn sizes at drawn instants from `first` on. Some come as early
/// as `traffic` allows, some up to a spacing later.
pub fn drawn<R: Rng>(
    traffic: LinearBounded,
    first: Instant,
    mut rng: R,
) -> impl Iterator<Item = Message> {
    let most_early = traffic.jitter().unwrap_or(Duration::MAX);
    let spacing = traffic.min_inter_arrival();
    let (mut at, mut logical) = (first, first);
    core::iter::from_fn(move || {
        let bytes = if rng.random_bool(0.6) {
            traffic.max_message()
        } else {
            rng.random_range(traffic.min_message()..=traffic.max_message())
        };
        let message = Message { at, bytes };
        logical = logical.max(at).saturating_add(spacing);
        // The next may come this much before its logical arrival.
        let earliest =
            Instant::from_nanos(logical.as_nanos().saturating_sub(most_early.as_nanos()));
        at = at.max(earliest);
        if rng.random_bool(0.4) {
            let later = rng.random_range(0..=spacing.as_nanos());
            at = at.saturating_add(Duration::from_nanos(later));
        }
        Some(message)
    })
}

/// A best-effort sender, with one message at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The size of its messages in bytes, at least 1.
    pub bytes: u32,
    /// The instant of its first message.
    pub first: Instant,
    /// The time from the last packet of a message to the next message.
    pub pause: Duration,
}

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
