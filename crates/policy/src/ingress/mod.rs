//! The way into a communication server: whose message is taken in next, and which ones keep their senders' word.
//!
//! A thread takes in what comes for many channels. [`Order`] says whose turn it is: channels that are promised a delay,
//! by the deadlines of what waits for them, and then all others, within their share of the thread. [`Police`] says of
//! each message whether its sender may have sent it then. A channel whose sender breaks its contract has no deadline
//! until it conforms again, so that it takes no more than the others' share.
//!
//! The order, and the reserved share, are those of Druschel and Banga, "Lazy Receiver Processing", OSDI 1996, section 3,
//! with one thread in place of one a process.

mod order;
mod police;
mod share;

use punctual_model::channel::LinearBounded;
use punctual_model::{Duration, Instant};

pub use order::{Next, Order};
pub use police::Police;
pub use share::BestEffort;

/// Datagrams of one channel that are read in one go, at most.
pub const QUANTUM: u32 = 16;

/// By how much networks are taken to bunch messages where nothing else is known ([`Terms::unevenness`]).
pub const UNEVENNESS: Duration = Duration::from_millis(2);

/// Datagrams that a socket keeps at least.
const LEAST_KEPT: u64 = 64;

/// Datagrams that a socket keeps at most, whatever its channel needs: of best effort few, for there what
/// waits is what could not be served.
const MOST_KEPT: (u64, u64) = (4_096, 256);

/// How a channel waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// What is in it must be handed over by then.
    By(Instant),
    /// Nothing was promised, or its sender breaks its promise.
    Later,
}

/// What is known of a channel that receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What its sender promised, best effort included.
    pub arrivals: LinearBounded,
    /// How long after its logical arrival a message may be on its way; `None`: best effort.
    pub delay_bound: Option<Duration>,
    /// By how much more than its sender the network may bunch messages: the longest time on the way
    /// less the shortest. What comes earlier than that and the contract allow is discarded.
    pub unevenness: Duration,
    /// The most datagrams of a message.
    pub datagrams: u32,
}

impl Terms {
    /// Returns how many datagrams its socket is to keep: those of the messages that can be waiting while all are still in
    /// time, of best effort those of one burst.
    pub fn kept(&self) -> u64 {
        let Self { arrivals, delay_bound, datagrams, .. } = self;
        let waiting = delay_bound.map_or(0, |bound| bound / arrivals.min_inter_arrival());
        let messages = waiting.saturating_add(u64::from(arrivals.max_burst())).saturating_add(1);
        let most = if delay_bound.is_some() { MOST_KEPT.0 } else { MOST_KEPT.1 };
        messages.saturating_mul(u64::from(*datagrams)).clamp(LEAST_KEPT, most)
    }
}
