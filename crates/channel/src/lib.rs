//! The data path of channels: carries messages, and records whether the promises to them were kept.
//!
//! - [`fragment`]: cuts messages larger than a packet into fragments with a header of ours, and
//!   reassembles them at the receiver.
//! - [`account`]: records the fate of each message of a channel, beside the promise.
//! - [`transport`]: hands packets to the network, an emulated link, or a wrapper with faults.
//! - [`rings`]: the queues that client and server share.
//! - [`client`]: the two ends of a channel in a client.
//! - [`server`]: the threads that carry messages.
//!
//! The first three take the time from their caller and read no clock. The design is in
//! `docs/channels.md`.
#![forbid(unsafe_code)]

pub mod account;
pub mod client;
pub mod fragment;
pub mod rings;
pub mod server;
pub mod transport;
