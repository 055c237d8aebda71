//! The ingress of a communication server: it decides which channel is read next, how much of it, and
//! which messages conform.
//!
//! One thread reads the messages of many channels. [`Order`] selects the next channel: channels
//! with a delay bound first, by the deadlines of their waiting messages, then all others in turn.
//! The [`Regulator`] of a channel with a delay bound limits what is read
//! of it to what admission charges, whatever comes. [`Police`] judges whether a message that was
//! read conforms.
//!
//! The order is that of Druschel and Banga, "Lazy Receiver Processing",
//! OSDI 1996, section 3, with one thread for all channels instead of one per process.

mod order;
mod police;
mod regulator;

use punctual_model::channel::{LinearBounded, ReadLimit};
use punctual_model::{Duration, Instant};

pub use order::Order;
pub use police::Police;
pub use regulator::Regulator;

/// The most datagrams of one channel that are read in one turn.
pub const QUANTUM: u32 = 16;

/// The assumed delay variation of a network, if no other is known ([`Terms::unevenness`]).
pub const UNEVENNESS: Duration = Duration::from_millis(2);

/// The least number of datagrams that a socket buffers.
const LEAST_KEPT: u64 = 64;

/// The most datagrams that a socket buffers, for promised channels and for best effort. Best effort
/// gets few, because its waiting datagrams are those that could not be served.
const MOST_KEPT: (u64, u64) = (4_096, 256);

/// The urgency with which a channel waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Its message must be handed over by this time.
    By(Instant),
    /// Nothing was promised.
    Later,
}

impl Urgency {
    /// Returns the urgency of a message that came at `arrived`.
    pub fn within(delay_bound: Option<Duration>, arrived: Instant) -> Self {
        delay_bound.map_or(Self::Later, |bound| Self::By(arrived.saturating_add(bound)))
    }
}

/// The terms of a receiving channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The traffic that its sender declared, also for best effort.
    pub arrivals: LinearBounded,
    /// The longest time from a message's logical arrival to the end of its transmission; `None`:
    /// best effort.
    pub delay_bound: Option<Duration>,
    /// The delay variation of the network: the longest time from sender to receiver less the
    /// shortest. Messages that come earlier than this and the contract allow are discarded.
    pub unevenness: Duration,
    /// The most datagrams of a message.
    pub datagrams: u32,
    /// The datagrams that admission charged. Best effort is read without this limit.
    pub reads: ReadLimit,
}

impl Terms {
    /// Returns the number of datagrams that its socket buffers: those of all messages of a conforming
    /// sender that can wait there until they may be read; for best effort, those of one burst.
    pub fn kept(&self) -> u64 {
        let Self { arrivals, delay_bound, unevenness, datagrams, .. } = self;
        let waiting = delay_bound
            .map_or(0, |bound| bound.saturating_add(*unevenness) / arrivals.min_inter_arrival());
        let messages = waiting.saturating_add(u64::from(arrivals.max_burst())).saturating_add(1);
        let most = if delay_bound.is_some() { MOST_KEPT.0 } else { MOST_KEPT.1 };
        messages.saturating_mul(u64::from(*datagrams)).clamp(LEAST_KEPT, most)
    }
}
