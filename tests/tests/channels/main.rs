//! Channels through a running broker, over loopback: messages arrive, what is lost is counted, and
//! nobody who cheats, dies or comes back costs another anything.
//!
//! They check what arrives and who holds what, never how fast. Without root's rights they say so and
//! check nothing.
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
