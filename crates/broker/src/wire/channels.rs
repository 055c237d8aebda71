//! What is said about channels.

use serde::{Deserialize, Serialize};

use crate::grant::{GrantId, Token};
use crate::want::RawChannel;

/// An admitted channel: it is open once its queue is attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// Its number.
    pub grant: GrantId,
    /// Proves after a reconnection who holds it.
    pub token: Token,
    /// From logical arrival to the end of the transmission, as promised; none to best effort.
    pub delay_bound_ns: Option<u64>,
    /// What best effort has at this moment, in bits a second; it changes as others come and go.
    pub share_bps: Option<u64>,
}

/// Why a channel was not admitted, and what would be at this moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("refused by the {test} test: {why}{}", offers_text(.offers))]
pub struct RefusedChannel {
    /// Such as `quota`, `processor` or `channel-delay`.
    pub test: String,
    /// One clause with the numbers.
    pub why: String,
    /// Whole requests, each of which was admitted before it was offered.
    pub offers: Vec<OfferedChannel>,
}

/// A counter-offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedChannel {
    /// What is other than in the request.
    pub change: String,
    /// To ask for as it is.
    pub channel: RawChannel,
}

fn offers_text(offers: &[OfferedChannel]) -> String {
    match offers {
        [] => "; no smaller request was found that would fit".into(),
        offers => {
            let changes: Vec<&str> = offers.iter().map(|offer| offer.change.as_str()).collect();
            format!("; it would be admitted with {}", changes.join(", or "))
        }
    }
}

/// A page of the channels that are granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelsStatus {
    /// Of all; none where this broker carries no channels.
    pub totals: Option<ChannelTotals>,
    /// In ascending order of their numbers.
    pub channels: Vec<ChannelStatus>,
    /// Whether there are more with greater numbers.
    pub more: bool,
}

/// The sums of the channel server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelTotals {
    /// The link, in bits a second.
    pub link_bps: u64,
    /// What is promised of it.
    pub promised_bps: u64,
    /// What is kept for best effort whatever is promised.
    pub best_effort_bps: u64,
    /// Channels.
    pub channels: u32,
    /// How many there can be.
    pub room: u32,
    /// What the channels' threads may use of a CPU, as X every Y.
    pub cpu: String,
    /// What the channels need of that at most, in parts per million of a CPU.
    pub cpu_ppm: u64,
    /// Refused since the broker started.
    pub refused: u64,
    /// What discards best effort that comes in too fast.
    pub early_discard: String,
}

/// One channel: what was promised, and what was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelStatus {
    /// Its number.
    pub grant: GrantId,
    /// Of whom.
    pub uid: u32,
    /// The process.
    pub pid: i32,
    /// As it was asked for.
    pub channel: RawChannel,
    /// Seconds since 1970.
    pub since: u64,
    /// Whether its holder is connected.
    pub connected: bool,
    /// Whether its queue is attached: else nothing of it is carried.
    pub attached: bool,
    /// `kept`, `broken: …`, or why there is nothing to say.
    pub verdict: String,
    /// Whether a promise was broken.
    pub broken: bool,
    /// What was counted; none while it is not attached.
    pub counts: Option<Counts>,
}

/// What became of the messages of a channel since it was attached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Messages that came.
    pub offered: u64,
    /// Those that were let in.
    pub taken: u64,
    /// Of them, those that came before their contract allowed it and waited.
    pub not_conforming: u64,
    /// Those that were handed over, to the network or to the client.
    pub done: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them that were late.
    pub late: u64,
    /// Lost, each cause by name.
    pub lost: Vec<(String, u64)>,
    /// From logical arrival to the end of the hand-over, the longest.
    pub worst_delay_ns: u64,
    /// Half of all delays are at most so long, as far as they are told apart.
    pub p50_delay_ns: u64,
    /// And 99 of 100.
    pub p99_delay_ns: u64,
    /// Between two messages, the most by which the gap differed from what it should be.
    pub worst_jitter_ns: u64,
}
