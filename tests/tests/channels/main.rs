//! Channels through a running broker, over loopback: messages arrive, losses are counted, and a
//! client that cheats, dies or comes back costs no other client anything.
//!
//! The tests check which messages arrive and which process holds what, never how fast. Without root
//! privileges they print that and check nothing.
#![allow(clippy::disallowed_methods, reason = "the patience of a test")]

mod awake;
mod carried;
mod deaths;
mod discarded;
mod host;
mod hostile;
mod judged;
mod many;
mod network;
mod restarts;
mod shares;
