//! Channels over the egress scheduler of a channel server: buffers, worst-case delays, admission.
//!
//! Reading order: [`egress`] (the server that runs: what `admit` and the broker promise), [`density`] (the same at the
//! price of a sum), [`processor`] (whether the server keeps to its share of a CPU), [`buffers`] (of jitter-constrained streams).
//!
//! Beside them [`paper`]: what the study of real-time channels published for its own host. It is *not safe*, nothing is
//! admitted by it, and `punctual explore` draws it beside the proven bound.

pub mod buffers;
pub mod density;
pub mod egress;
pub mod paper;
pub mod processor;

use alloc::vec::Vec;

use punctual_model::Duration;
use punctual_model::channel::Channel;

/// How long after its logical arrival the last packet of a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayBound {
    /// No message takes longer.
    AtMost(Duration),
    /// The channel and those above it ask for more than there is, or a number has no end.
    Unbounded,
    /// Not decided within the steps: to be refused.
    Undecided,
}

impl DelayBound {
    /// The bound, if there is one.
    pub fn bound(self) -> Option<Duration> {
        match self {
            Self::AtMost(bound) => Some(bound),
            Self::Unbounded | Self::Undecided => None,
        }
    }
}

/// The order of `D_order` with the least delay bound first; equal ones stay in the order given.
pub fn deadline_monotonic(channels: &[Channel]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..channels.len()).collect();
    order.sort_by_key(|&at| channels[at].delay_bound());
    order
}
