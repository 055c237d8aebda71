//! The messages about channels.

use serde::{Deserialize, Serialize};

use crate::grant::{GrantId, Token};
use crate::want::RawChannel;

/// An admitted channel: it is open once its queue is attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// Its number.
    pub grant: GrantId,
    /// The secret that proves ownership after a reconnection.
    pub token: Token,
    /// The promised bound from logical arrival to the end of the transmission; `None` for best
    /// effort.
    pub delay_bound_ns: Option<u64>,
    /// The current rate of best effort in bits a second; it changes as other channels come and go.
    pub share_bps: Option<u64>,
}

/// The reason why a channel was not admitted, and what would be at this moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("refused by the {test} test of the broker: {why}{}", offers_text(.offers))]
pub struct RefusedChannel {
    /// The failed test, such as `quota`, `processor` or `channel-delay`.
    pub test: String,
    /// The reason with the numbers, in one clause.
    pub why: String,
    /// Complete requests, each of which passed admission before it was offered.
    pub offers: Vec<OfferedChannel>,
}

/// A counter-offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedChannel {
    /// The difference from the request.
    pub change: String,
    /// The request to send, as it is.
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
    /// The sums of all channels; `None` if this broker carries no channels.
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
    /// The promised part of the link.
    pub promised_bps: u64,
    /// The part of the link that is always kept for best effort.
    pub best_effort_bps: u64,
    /// The number of channels.
    pub channels: u32,
    /// The most channels that there can be.
    pub room: u32,
    /// The reservation of the channels' threads on a CPU, as budget and period.
    pub cpu: String,
    /// The most that the channels need of that, in parts per million of a CPU.
    pub cpu_ppm: u64,
    /// The number of channels refused since the broker started.
    pub refused: u64,
    /// The mechanism that discards excessive best-effort packets that come in.
    pub early_discard: String,
}

/// One channel: its promise, and its measurements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelStatus {
    /// Its number.
    pub grant: GrantId,
    /// The user that holds it.
    pub uid: u32,
    /// The process.
    pub pid: i32,
    /// The request.
    pub channel: RawChannel,
    /// The start of the grant, in seconds since 1970.
    pub since: u64,
    /// Whether its holder is connected.
    pub connected: bool,
    /// Whether its queue is attached; if not, it carries nothing.
    pub attached: bool,
    /// `kept`, `broken: …`, or the reason why there is no verdict.
    pub verdict: String,
    /// Whether a promise was broken.
    pub broken: bool,
    /// The counters; `None` while its queue is not attached.
    pub counts: Option<Counts>,
}

/// The counters of a channel since it was attached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Messages that came.
    pub offered: u64,
    /// Messages that were let in.
    pub taken: u64,
    /// Messages let in that came before their contract allowed it and waited.
    pub not_conforming: u64,
    /// Messages that were handed over, to the network or to the client.
    pub done: u64,
    /// The bytes of the messages handed over.
    pub bytes: u64,
    /// Messages handed over that were late.
    pub late: u64,
    /// Lost messages, by cause.
    pub lost: Vec<(String, u64)>,
    /// The longest delay from logical arrival to the end of the hand-over.
    pub worst_delay_ns: u64,
    /// The median delay, within the resolution of the histogram.
    pub p50_delay_ns: u64,
    /// The 99th percentile of the delays.
    pub p99_delay_ns: u64,
    /// The largest deviation of the gap between two messages from the contract.
    pub worst_jitter_ns: u64,
}
