//! What client and server share for one channel: a queue of messages, and a bell.
//!
//! ```text
//! who makes it    who writes      what
//! client          the producer    frames: descriptors and messages
//! client          the consumer    page: how many were released
//! client          both            a pair of bells, one end each
//! ```
//! The client makes all of it, in both directions, so that the memory is accounted to the client, and
//! so that it can hand the same queue to the next server. Of a channel that sends, the client is the
//! producer; of one that receives, the server is. The descriptors are passed in the order of
//! [`Passed`].
//!
//! Each side writes the part that is its own in that direction and maps the other for reading. What
//! the other side writes is believed only as far as `punctual_ring::frames` checks it.

pub mod client;
mod error;
pub mod server;
#[cfg(test)]
mod tests;
mod view;

use std::os::fd::OwnedFd;

use punctual_linux::memfd::Writable;
use punctual_ring::frames::{Consumer, Producer};
use rustix::net::{AddressFamily, SocketType};

pub use error::RingError;
pub use view::View;

/// Puts messages into a queue that the other process takes them out of.
pub type Puts = Producer<Writable, View>;

/// Takes messages out of a queue that the other process puts them into.
pub type Takes = Consumer<Writable, View>;

/// The three descriptors of a channel, as the client passes them to the server.
#[derive(Debug)]
pub struct Passed {
    /// The producer's memory.
    pub frames: OwnedFd,
    /// The consumer's page.
    pub page: OwnedFd,
    /// The server's end of the bells.
    pub bell: OwnedFd,
}

impl Passed {
    /// How many descriptors those are.
    pub const COUNT: usize = 3;

    /// In the order in which they are passed.
    ///
    /// # Errors
    /// If there are not [`Self::COUNT`], they come back.
    pub fn of(descriptors: Vec<OwnedFd>) -> Result<Self, Vec<OwnedFd>> {
        let [frames, page, bell] = <[OwnedFd; Self::COUNT]>::try_from(descriptors)?;
        Ok(Self { frames, page, bell })
    }

    /// Whether these are memory and a socket, as far as that can be told without the help of whatever
    /// file system else they are from: so that closing them, too, takes none.
    pub fn are_memory_and_bell(&self) -> bool {
        let is_memory = |one: &OwnedFd| rustix::fs::fcntl_get_seals(one).is_ok();
        let domain = rustix::net::sockopt::socket_domain(&self.bell);
        let kind = rustix::net::sockopt::socket_type(&self.bell);
        // Others may linger when they are closed.
        let is_bell = domain == Ok(AddressFamily::UNIX) && kind == Ok(SocketType::STREAM);
        is_memory(&self.frames) && is_memory(&self.page) && is_bell
    }

    /// In the order in which they are passed.
    pub fn into_descriptors(self) -> [OwnedFd; Self::COUNT] {
        [self.frames, self.page, self.bell]
    }
}
