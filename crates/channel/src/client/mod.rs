//! The client's side of channels: its two ends, [`Sending`] and [`Receiving`].
//!
//! An end is a queue in shared memory and a bell. While both sides are awake no call here enters
//! the kernel, and none allocates. Permissions are up to the broker and not visible here: the
//! descriptors that [`Sending::map`] takes come from a server by some connection ([`Attach`]).
//!
//! - [`sending`]: put messages in, one by one or several at a time in place.
//! - [`receiving`]: take messages out, as a copy or in place.
//! - [`compact`]: a channel in a line of text.
//! - `peer`: the bells, and whether a server still has the other end.
//!
//! # Waiting for room
//! A thread that waits for room, here or in poll(2), is woken when a quarter of the slots is free.
//! It is woken for a single slot if it was not woken within the last millisecond. So it puts in
//! several messages for each sleep. A queue of a few slots wakes it for each.
//!
//! # A server that ends
//! The mapped memory stays. Messages that were sent and have not left yet go on with the next
//! server: [`Sending::rejoin`] copies them into the queue that this one has made. Messages that a
//! server had put in are received before those of the next one. A message for which a call returned
//! `Ok` is in the queue; one for which it returned an error is not.
//!
//! # In an event loop
//! An end is [`AsFd`](std::os::fd::AsFd). Readable means that the bell was rung, not that there is
//! a message:
//!
//! 1. `before_poll`: if it returns [`Rest::Work`], there is something to do, so do not sleep.
//! 2. poll(2), epoll_wait(2) and so on, for reading.
//! 3. `after_poll`, however that ended.
//! 4. `try_send` or `try_receive` until they have no more.
//!
//! The server rings only for a side that announced its sleep. So without the first step it does not
//! ring, and nothing may come between the first and the second. Calls that send or receive take the
//! third step themselves if it was left out.

pub mod compact;
mod error;
mod peer;
pub mod receiving;
pub mod sending;
#[cfg(test)]
mod tests;

pub use error::{DrainError, ReceiveError, RejoinError, SendError};
pub use peer::Attach;
pub use punctual_ring::frames::{Geometry, Rest};
pub use receiving::{Message, Received, Receiving};
pub use sending::{Batch, Sending, Slot};
