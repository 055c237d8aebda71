//! Channels over a sender's processor and link: buffers, worst-case delays, admission.
//!
//! Reading order: [`egress`] (the server that runs: what `admit` and the broker promise), [`density`] (the same at the
//! price of a sum), [`processor`] (whether the server keeps to its share of a CPU), [`buffers`] (bursts and buffers of jitter-constrained streams).
//!
//! The study of real-time channels has another host, whose processor makes packets while its link sends others. Its
//! reading order: `sender` (the host as the bounds see it, messages as packets and blocks), `window` (the fixed points),
//! [`paper`] (the published estimate, printing errors corrected: *not safe*), [`sound`] (the bound
//! that is proven in `docs/channel-bounds.md`), [`edf`] (the same for deadline order), and
//! [`admit_channels`], which uses `sound` and nothing else.

mod admission;
pub mod buffers;
pub mod density;
pub mod edf;
pub mod egress;
mod level;
pub mod paper;
pub mod processor;
mod sender;
pub mod sound;
mod window;

pub use admission::{ChannelGrant, ChannelRefusal, GrantedChannel, admit_channels};
pub use window::{Assumed, Costs, DelayBound, Interference};

use alloc::vec::Vec;

use punctual_model::channel::Channel;

/// The order of `D_order` with the least delay bound first; equal ones stay in the order given.
pub fn deadline_monotonic(channels: &[Channel]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..channels.len()).collect();
    order.sort_by_key(|&at| channels[at].delay_bound());
    order
}
