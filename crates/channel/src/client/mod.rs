//! The client's side of channels: its two ends, [`Sending`] and [`Receiving`].
//!
//! An end is a queue in shared memory and a bell. While both sides are awake no call here enters the
//! kernel, and none allocates. Who may have which channel is the broker's affair and not seen here:
//! what [`Sending::create`] passes out goes to a server by whatever connection there is.
//!
//! - [`sending`], [`batch`]: messages in, one by one or several at a time where they are to lie.
//! - [`receiving`], [`message`]: messages out, as a copy or where they lie.
//! - [`compact`]: a channel in a line of text.
//! - `peer`: the bell, and whether a server still has the other end of it.
//!
//! # Waiting for room
//! Who waits for room, here or in poll(2), is woken when a quarter of its slots is free, and for a single
//! one if it was not woken within the last millisecond: so it puts in several messages a sleep. A queue of
//! a few slots is told of each.
//!
//! # A server that ends
//! The memory is the client's, and stays. What was sent and has not left yet is there for the next
//! server: [`Sending::rejoin`] makes a new pair of bells and gives out what that server is to be handed.
//! A message for which a call returned `Ok` is in the queue, one for which it returned an error is not.
//!
//! # In an event loop
//! An end is [`AsFd`](std::os::fd::AsFd). Readable means that it was rung, not that there is something:
//!
//! 1. `before_poll`: if it says [`Rest::Work`], there is something to do, so do not sleep.
//! 2. poll(2), epoll_wait(2) and so on, for reading.
//! 3. `after_poll`, however that ended.
//! 4. `try_send` or `try_receive` until they have no more.
//!
//! The server rings only for a side that said that it sleeps: so without the first step it does not,
//! and nothing may come between the first and the second. Calls that send or receive take the third
//! step themselves where it was left out.

pub mod batch;
pub mod compact;
mod error;
pub mod message;
mod peer;
pub mod receiving;
pub mod sending;
#[cfg(test)]
mod tests;

pub use batch::{Batch, Slot};
pub use error::{DrainError, ReceiveError, SendError};
pub use message::Message;
pub use punctual_ring::frames::{Geometry, Rest};
pub use receiving::{Received, Receiving};
pub use sending::Sending;
