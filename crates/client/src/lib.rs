//! The client of the broker: asks for grants, hears of them, changes and releases them.
//!
//! - [`Broker`]: a connection; its requests and events.
//! - [`want`]: what can be requested. [`grant`]: what was granted.
//! - [`wire`]: the messages, for clients in other languages.
//!
//! The broker itself is `punctual-broker`, and `docs/broker.md` states what it guarantees.
#![forbid(unsafe_code)]

mod client;
pub mod grant;
pub mod want;
pub mod wire;

pub use client::{
    Broker, ChannelError, ClientError, Granted, GrantedChannel, ReleaseError, RequestError,
    SpawnError, Spawned, spawn_reserved,
};

/// Where the broker listens unless told otherwise.
pub const SOCKET: &str = "/run/punctual/broker.sock";
