//! The parts of one channel that client and server share: a queue of messages, and a bell each way.
//!
//! ```text
//! made by    written by      part
//! server     the producer    frames: descriptors and messages
//! server     the consumer    page: the number of released messages
//! server     the server      bell: a pair of sockets, wakes the client, reports the server's end
//! server     the client      doorbell: an eventfd, wakes the server
//! ```
//! The server makes all of it, because a thread on which others depend touches only memory,
//! descriptors and bells that were made on its own side. In a channel that sends, the client is the
//! producer; in one that receives, the server is. Each side writes its own part and maps the other
//! part for reading. It trusts what the other side writes only as far as `punctual_ring::frames`
//! checks it.
//!
//! # Order of the steps
//! 1. The server [makes](server::Made) both memories and both bells, maps both memories, seals the
//!    part that it writes itself, and passes a descriptor of each ([`Passed`]).
//! 2. The client [maps](client::map) both, initialises its part, and reports that it has.
//! 3. The part that the client writes is [sealed](server::Made::seal): from then on the client can
//!    write it, and do nothing else with it. This may take as long as the client likes.
//! 4. The server [freezes](server::Made::freeze) the queue: it checks the seals and allocates every
//!    page. This may wait for the client, too. Only then does a thread on which others depend see
//!    it.

pub mod client;
mod error;
pub mod server;
#[cfg(test)]
mod tests;
mod view;

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use punctual_linux::memfd::Writable;
use punctual_linux::pass::{Bell, Doorbell};
use punctual_ring::frames::{AttachError, Consumer, Geometry, Producer};

pub use error::RingError;
pub use view::View;

/// Puts messages into a queue from which the other process takes them.
pub type Puts = Producer<Writable, View>;

/// Takes messages out of a queue into which the other process puts them.
pub type Takes = Consumer<Writable, View>;

/// One side's end of a queue: [`Puts`] or [`Takes`].
pub trait End: Sized {
    /// The end at the other side.
    type Other: End;

    /// Returns the bytes of the memory that this end writes.
    fn bytes(geometry: Geometry) -> usize;

    /// Makes `own` this end's part of an empty queue whose first message is number `first`.
    ///
    /// # Errors
    /// Returns an error if `own` has another size.
    fn prepare(geometry: Geometry, first: u64, own: &Writable) -> Result<(), AttachError>;

    /// Attaches to a queue.
    ///
    /// # Errors
    /// Returns an error if the memory is no queue.
    fn attach(own: Writable, other: View) -> Result<Self, AttachError>;

    /// Returns the number of the queue's slots and their size.
    fn geometry(&self) -> Geometry;

    /// Sorts two values, one for the frames and one for the page: the one for the part that this
    /// end writes comes first.
    fn own_first<T>(frames: T, page: T) -> (T, T);
}

impl End for Puts {
    type Other = Takes;

    fn bytes(geometry: Geometry) -> usize {
        geometry.producer_bytes()
    }

    fn prepare(geometry: Geometry, first: u64, own: &Writable) -> Result<(), AttachError> {
        Self::prepare(geometry, first, own)
    }

    fn attach(own: Writable, other: View) -> Result<Self, AttachError> {
        Self::attach(own, other)
    }

    fn geometry(&self) -> Geometry {
        self.geometry()
    }

    fn own_first<T>(frames: T, page: T) -> (T, T) {
        (frames, page)
    }
}

impl End for Takes {
    type Other = Puts;

    fn bytes(_: Geometry) -> usize {
        Geometry::CONSUMER_BYTES
    }

    fn prepare(_: Geometry, first: u64, own: &Writable) -> Result<(), AttachError> {
        Self::prepare(first, own)
    }

    fn attach(own: Writable, other: View) -> Result<Self, AttachError> {
        Self::attach(own, other)
    }

    fn geometry(&self) -> Geometry {
        self.geometry()
    }

    fn own_first<T>(frames: T, page: T) -> (T, T) {
        (page, frames)
    }
}

/// One side's parts of a channel.
#[derive(Debug)]
pub struct Side<E> {
    /// Its end of the queue.
    pub end: E,
    /// Rung by the server for the client.
    pub bell: Bell,
    /// Rung by the client for the server.
    pub doorbell: Doorbell,
}

/// The descriptors of a channel, as the server passes them to the client.
#[derive(Debug)]
pub struct Passed {
    /// The producer's memory.
    pub frames: OwnedFd,
    /// The consumer's page.
    pub page: OwnedFd,
    /// The client's end of the pair of sockets.
    pub bell: OwnedFd,
    /// The eventfd.
    pub doorbell: OwnedFd,
}

impl Passed {
    /// The number of descriptors.
    pub const COUNT: usize = 4;

    /// Takes the descriptors in the order in which they are passed.
    ///
    /// # Errors
    /// Returns the descriptors if there are not [`Self::COUNT`] of them.
    pub fn of(descriptors: Vec<OwnedFd>) -> Result<Self, Vec<OwnedFd>> {
        let [frames, page, bell, doorbell] = <[OwnedFd; Self::COUNT]>::try_from(descriptors)?;
        Ok(Self { frames, page, bell, doorbell })
    }

    /// Returns the descriptors in the order in which they are passed.
    pub fn into_descriptors(self) -> [OwnedFd; Self::COUNT] {
        [self.frames, self.page, self.bell, self.doorbell]
    }

    /// Returns the descriptors of the memory, each with its size in bytes.
    pub fn memory(&self, geometry: Geometry) -> [(BorrowedFd<'_>, u64); 2] {
        // Each is at most a few gigabytes.
        let frames = (self.frames.as_fd(), geometry.producer_bytes() as u64);
        [frames, (self.page.as_fd(), Geometry::CONSUMER_BYTES as u64)]
    }

    /// Borrows the descriptors in the order in which they are passed.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; Self::COUNT] {
        [self.frames.as_fd(), self.page.as_fd(), self.bell.as_fd(), self.doorbell.as_fd()]
    }
}

/// Makes both sides of a queue in one process, with the end `E` for the server: for measurements
/// and tests.
///
/// # Errors
/// Returns an error if there is no memory, or no descriptor is left.
pub fn both<E: End>(geometry: Geometry) -> Result<(Side<E::Other>, Side<E>), RingError> {
    let (made, passed) = server::Made::<E>::new(geometry, 0)?;
    let client = client::map(passed, geometry, 0)?;
    made.seal()?;
    Ok((client, made.freeze()?))
}
