//! The data path of channels: how messages travel, and whether what was promised for them was kept.
//!
//! - [`fragment`]: messages larger than a packet, in pieces with a header of ours, put together again
//!   at the receiver.
//! - [`account`]: what became of each message of a channel, beside what was promised.
//! - [`transport`]: how packets leave; an emulated link, and faults.
//! - [`rings`]: what client and server share.
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
