//! The client's side of channels: its two ends, [`Sending`] and [`Receiving`].
//!
//! An end is a queue in shared memory and a bell. While both sides are awake no call here enters the
//! kernel, and none allocates. Who may have which channel is the broker's affair and not seen here:
//! what [`Sending::map`] is given comes from a server by whatever connection there is ([`Attach`]).
//!
//! - [`sending`], [`batch`]: messages in, one by one or several at a time where they are to lie.
//! - [`receiving`], [`message`]: messages out, as a copy or where they lie.
//! - [`compact`]: a channel in a line of text.
//! - `peer`: the bells, and whether a server still has the other end.
//!
//! # Waiting for room
//! Who waits for room, here or in poll(2), is woken when a quarter of its slots is free, and for a single
//! one if it was not woken within the last millisecond: so it puts in several messages a sleep. A queue of
//! a few slots is told of each.
//!
//! # A server that ends
//! What is mapped stays. What was sent and has not left yet goes on with the next server:
//! [`Sending::rejoin`] copies it into the queue that this one has made. What a server had put in is
//! received before what the next one puts in. A message for which a call returned `Ok` is in the queue, one for which it returned an error is not.
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

use punctual_ring::frames::Corrupt;

use crate::rings::{Passed, RingError};
pub use batch::{Batch, Slot};
pub use error::{DrainError, ReceiveError, RejoinError, SendError};
pub use message::Message;
pub use punctual_ring::frames::{Geometry, Rest};
pub use receiving::{Received, Receiving};
pub use sending::Sending;

/// An end of a channel, as whoever asks a server for its queue needs it.
pub trait Attach: Sized {
    /// Maps a queue of a channel that has none yet. It was made with this geometry and begins with message
    /// 0.
    ///
    /// # Errors
    /// If it is no such queue, or there is no memory.
    fn map(queue: Passed, geometry: Geometry) -> Result<Self, RingError>;

    /// Returns the number of the first message that the next queue carries: what the server that makes it
    /// is to be told.
    ///
    /// # Errors
    /// If the last server's part of the memory makes no sense.
    fn next_number(&mut self) -> Result<u64, Corrupt>;

    /// Goes on with a queue of the next server, after one that is gone; it was made to begin with message
    /// `first`, as [`Self::next_number`] said. To a server that is still there this end is gone from here
    /// on.
    ///
    /// # Errors
    /// If it is no such queue. Then all is as it was.
    fn rejoin(&mut self, queue: Passed, first: u64) -> Result<(), RejoinError>;
}
