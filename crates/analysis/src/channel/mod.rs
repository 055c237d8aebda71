//! Channels over the egress scheduler of a channel server: buffers, worst-case delays, admission.
//!
//! Reading order: [`egress`] (the real server, which `admit` and the broker rely on), [`density`]
//! (a cheaper test of the same server, by one sum), [`processor`] (whether the server stays within
//! its CPU share), [`buffers`] (of jitter-constrained streams).
//!
//! Beside them, [`paper`] holds the published estimate of real-time channels for the study's own
//! host. It is *not safe*: nothing is admitted by it. `punctual explore` draws it beside the proven
//! bound.

pub mod buffers;
pub mod density;
pub mod egress;
pub(crate) mod late;
pub mod paper;
pub mod processor;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use punctual_model::Duration;
use punctual_model::channel::Channel;

/// A bound on the time from a message's logical arrival to the end of its last packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayBound {
    /// No message takes longer.
    AtMost(Duration),
    /// The channel and those above it ask for more than there is, or no bound is finite.
    Unbounded,
    /// Not decided within the steps; to be treated as a refusal.
    Undecided,
}

impl DelayBound {
    /// Returns the bound, if there is one.
    pub fn bound(self) -> Option<Duration> {
        match self {
            Self::AtMost(bound) => Some(bound),
            Self::Unbounded | Self::Undecided => None,
        }
    }
}

/// Returns the words for a channel that may be named.
pub(crate) fn channel_named(channel: &Channel) -> String {
    format!("channel \"{}\"", channel.name())
}

/// Returns the order of `D_order`: the least delay bound first, equal ones in the given order.
pub fn deadline_monotonic(channels: &[Channel]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..channels.len()).collect();
    order.sort_by_key(|&at| channels[at].delay_bound());
    order
}
