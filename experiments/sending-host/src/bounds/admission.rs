//! Admits channels by the proven bound and nothing else.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use punctual_analysis::Steps;
use punctual_analysis::channel::{DelayBound, deadline_monotonic};
use punctual_model::Duration;
use punctual_model::channel::{Channel, Sender};
use thiserror::Error;

use super::{edf, sound};

/// The promise for all channels of a sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelGrant {
    /// Each channel in the order given.
    pub channels: Vec<GrantedChannel>,
    /// Whether the promise also holds if messages are served by deadline instead of by rank.
    pub holds_in_deadline_order: bool,
}

/// The promise for one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedChannel {
    /// The channel.
    pub name: String,
    /// Its place in the priority order; 0 is the most urgent.
    pub rank: u32,
    /// The longest time of a message from its logical arrival, served by rank.
    pub delay_bound: Duration,
}

/// The reason why channels were not admitted: the first that does not fit, the most urgent first.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChannelRefusal {
    /// It may take longer than its delay bound.
    #[error(
        "channel \"{name}\" may take {bound}, {} longer than its delay bound of {delay_bound}",
        .bound.saturating_sub(*.delay_bound)
    )]
    TooLate {
        /// The channel.
        name: String,
        /// The proven bound. It is also the counter-offer: this delay bound would fit.
        bound: Duration,
        /// The requested delay bound.
        delay_bound: Duration,
    },
    /// The channels up to this one ask for more than processor and link have.
    #[error(
        "channel \"{name}\" has no delay bound: with those above it, it asks for more than \
         processor and link can do"
    )]
    Overload {
        /// The channel.
        name: String,
    },
    /// The analysis gave up, so nothing is promised.
    #[error("channel \"{name}\" was not decided within the steps allowed")]
    Undecided {
        /// The channel.
        name: String,
    },
}

/// Admits `channels` together, ranked by delay bound, or returns the first that does not fit.
pub fn admit_channels(
    sender: &Sender,
    channels: &[Channel],
    steps: &mut Steps,
) -> Result<ChannelGrant, ChannelRefusal> {
    let order = deadline_monotonic(channels);
    let ranked: Vec<Channel> = order.iter().map(|&at| channels[at].clone()).collect();
    let mut granted: Vec<(usize, GrantedChannel)> = Vec::with_capacity(channels.len());
    for (rank, delay) in sound::delays(sender, &ranked, steps).into_iter().enumerate() {
        let channel = &ranked[rank];
        let name = channel.name().to_string();
        let bound = match delay {
            DelayBound::AtMost(bound) => bound,
            DelayBound::Unbounded => return Err(ChannelRefusal::Overload { name }),
            DelayBound::Undecided => return Err(ChannelRefusal::Undecided { name }),
        };
        if bound > channel.delay_bound() {
            let delay_bound = channel.delay_bound();
            return Err(ChannelRefusal::TooLate { name, bound, delay_bound });
        }
        // More channels than 32 bits can count do not fit in memory.
        granted.push((order[rank], GrantedChannel { name, rank: rank as u32, delay_bound: bound }));
    }
    granted.sort_by_key(|(at, _)| *at);
    Ok(ChannelGrant {
        channels: granted.into_iter().map(|(_, channel)| channel).collect(),
        holds_in_deadline_order: edf::all_in_time(sender, channels, steps),
    })
}
