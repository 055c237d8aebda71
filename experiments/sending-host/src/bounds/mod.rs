//! Proves bounds on the delays of channels on this host: `docs/channel-bounds.md`.
//!
//! Reading order: `sender` (the host as the bounds see it, messages as packets and blocks),
//! `window` (the fixed points, and the channels of a level with those below it), [`sound`] (the
//! proven bound), [`edf`] (the same for deadline order), and [`admit_channels`], which uses
//! the two and nothing else. The published bounds are in [`punctual_analysis::channel::paper`].

mod admission;
pub mod edf;
mod sender;
pub mod sound;
mod window;

pub use admission::{ChannelGrant, ChannelRefusal, GrantedChannel, admit_channels};
pub use window::{Assumed, Interference};
