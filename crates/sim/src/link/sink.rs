//! What comes out of a simulated host.

use alloc::vec::Vec;

use punctual_model::channel::Channel;
use punctual_model::{Duration, Instant, Service};
use punctual_policy::link::NotAccepted;

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
    /// What goes before all of the sender.
    Hogs,
    /// Handlers of channels, with the changes to them.
    Channels,
    /// Handlers of what is promised nothing, with the changes to them.
    BestEffort,
    /// The link scheduler: in O1 while it interrupts, in O2 its thread, with the changes to it.
    Link,
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

/// What processor and link did in a run. A packet that is made or sent when it ends is not counted,
/// other steps are from when they begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How long the run was.
    pub length: Duration,
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent for channels.
    pub channel_bytes: u64,
    /// Bytes sent without a promise.
    pub best_effort_bytes: u64,
    /// The link was sending.
    pub link_busy: Duration,
    /// Processor time in handlers that made packets.
    pub making: Service,
    /// In changes from one to another.
    pub changing: Service,
    /// In link scheduling, without changes to its thread.
    pub link_scheduling: Service,
    /// Taken by hogs.
    pub hogs: Service,
    /// Messages of channels that had not left at the end.
    pub inside: u64,
}

impl Totals {
    /// Bytes a second that arrived at the other end; zero for a run of no length.
    pub fn goodput(&self) -> u64 {
        let bytes = u128::from(self.channel_bytes) + u128::from(self.best_effort_bytes);
        let rate = (bytes * 1_000_000_000).checked_div(u128::from(self.length.as_nanos()));
        rate.map_or(0, |rate| u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// Processor time of the sender and of hogs.
    pub fn processor_busy(&self) -> Service {
        [self.making, self.changing, self.link_scheduling, self.hogs]
            .into_iter()
            .fold(Service::ZERO, Service::saturating_add)
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
    /// Messages that came faster than declared.
    pub not_conforming: u64,
    /// Messages not let in.
    pub refused: u64,
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

    fn refused(&mut self, channel: usize, _at: Instant, _why: NotAccepted) {
        self.channels[channel].refused += 1;
    }
}
