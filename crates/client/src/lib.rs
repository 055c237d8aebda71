//! The client of the broker: requests grants, receives their events, changes and releases them.
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
    Broker, ChannelError, ClientError, Granted, GrantedChannel, ReleaseError, RequestError, SOCKET,
    SavedGrant, SpawnError, Spawned, spawn_granted,
};
