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
//! 1. The server [makes](Made) both memories and both bells, maps both memories, seals the
//!    part that it writes itself, and passes a descriptor of each ([`Passed`]).
//! 2. The client [maps](map) both, initialises its part, and reports that it has.
//! 3. The part that the client writes is [sealed](Made::seal): from then on the client can
//!    write it, and do nothing else with it. This may take as long as the client likes.
//! 4. The server [freezes](Made::freeze) the queue: it checks the seals and allocates every
//!    page. This may wait for the client, too. Only then does a thread on which others depend see
//!    it.

#[cfg(test)]
mod tests;

use std::marker::PhantomData;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use punctual_linux::memfd;
use punctual_linux::memfd::{Lent, MemfdError, Others, Readable, Writable};
use punctual_linux::pass::{Bell, Doorbell, PassError};
use punctual_ring::frames::{Addressed, AttachError, Consumer, Geometry, Producer, Words};
use rustix::io::Errno;
use thiserror::Error;

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
    let (made, passed) = Made::<E>::new(geometry, 0)?;
    let client = map(passed, geometry, 0)?;
    made.seal()?;
    Ok((client, made.freeze()?))
}

/// A queue whose client has not mapped its part yet, or whose client's part is not sealed yet. `E`
/// is the server's end of it.
#[derive(Debug)]
pub struct Made<E> {
    own: Writable,
    lent: Lent,
    file: OwnedFd,
    geometry: Geometry,
    bell: Bell,
    doorbell: Doorbell,
    end: PhantomData<fn() -> E>,
}

impl<E: End> Made<E> {
    /// Makes a queue whose first message has the number `first`. Returns it and the descriptors to
    /// pass to its client.
    ///
    /// Only the first page of the part that this side writes is allocated so far: the others are
    /// charged to the client if the client maps them first.
    ///
    /// # Errors
    /// Returns an error if there is no memory, or no descriptor is left.
    pub fn new(geometry: Geometry, first: u64) -> Result<(Self, Passed), RingError> {
        let (name, others_name) = E::own_first("punctual frames", "punctual page");
        let (own, own_file) = Writable::create_sparse(name, E::bytes(geometry), Others::Read)?;
        E::prepare(geometry, first, &own)?;
        let (lent, file) = memfd::lend(others_name, E::Other::bytes(geometry))?;
        let copied = rustix::io::fcntl_dupfd_cloexec(&file, 0).map_err(RingError::Descriptors)?;
        let (bell, theirs) = Bell::pair()?;
        bell.only_ring()?;
        let doorbell = Doorbell::new()?;
        // The same function also sorts the parts into frames and page.
        let (frames, page) = E::own_first(own_file, copied);
        let passed = Passed { frames, page, bell: theirs.into(), doorbell: doorbell.copy()? };
        Ok((Self { own, lent, file, geometry, bell, doorbell, end: PhantomData }, passed))
    }

    /// Takes all rights to the part from the client but writing where it has mapped it. May wait
    /// for as long as the client likes, which can hold the lock of the file. So it must be called
    /// by a thread on which only that client depends.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses.
    pub fn seal(&self) -> Result<(), RingError> {
        Ok(memfd::seal(&self.file)?)
    }

    /// Makes it a queue that can be used without waiting: checks the seals, allocates every page
    /// and holds it in memory, and attaches. May wait for the client, which can hold the lock of a
    /// page. So it must be called by a thread on which only that client depends.
    ///
    /// # Errors
    /// Returns an error if it is not [sealed](Self::seal), if memory is lacking, or if the client's
    /// part is not that of a queue of this geometry.
    pub fn freeze(self) -> Result<Side<E>, RingError> {
        let Self { mut own, lent, file, geometry, bell, doorbell, .. } = self;
        let other = lent.freeze(&file)?;
        own.populate()?;
        own.hold(&other)?;
        let end = E::attach(own, View(other))?;
        let has = end.geometry();
        if has != geometry {
            return Err(RingError::OtherGeometry {
                slots: has.slots(),
                bytes: has.max_message(),
                expected_slots: geometry.slots(),
                expected_bytes: geometry.max_message(),
            });
        }
        Ok(Side { end, bell, doorbell })
    }
}

/// Returns the number of bytes of a queue's memory, both parts together.
pub fn bytes(geometry: Geometry) -> u64 {
    // Each is at most a few gigabytes.
    (geometry.producer_bytes() + Geometry::CONSUMER_BYTES) as u64
}

/// Maps a queue that was made for this client. Makes the client's part that of an empty queue whose
/// first message has the number `first`, as agreed with the server.
///
/// # Errors
/// Returns an error if it is no such queue, or there is no memory.
pub fn map<E: End>(passed: Passed, geometry: Geometry, first: u64) -> Result<Side<E>, RingError> {
    let Passed { frames, page, bell, doorbell } = passed;
    let (own, other) = E::own_first(frames, page);
    let own = Writable::of(own, E::bytes(geometry))?;
    E::prepare(geometry, first, &own)?;
    let other = View(Readable::of(other, E::Other::bytes(geometry))?);
    let end = E::attach(own, other)?;
    Ok(Side { end, bell: Bell::of(bell)?, doorbell: Doorbell::of(doorbell) })
}

/// Memory that the other side writes, mapped only for reading.
#[derive(Debug)]
pub struct View(pub Readable);

impl Words for View {
    #[inline]
    fn count(&self) -> usize {
        self.0.count()
    }

    #[inline]
    fn load(&self, at: usize) -> u64 {
        self.0.load(at)
    }

    #[inline]
    fn load_all(&self, at: usize, into: &mut [u64]) {
        self.0.load_all(at, into);
    }
}

impl Addressed for View {
    #[inline]
    fn address(&self, at: usize) -> *const u8 {
        self.0.address(at)
    }
}

/// The reason why client and server do not share a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RingError {
    /// The memory does not exist, or could hurt the process that maps it.
    #[error(transparent)]
    Memory(#[from] MemfdError),
    /// The memory is no queue.
    #[error("the shared memory is no queue of messages: {0}")]
    Queue(#[from] AttachError),
    /// The bell could not be created.
    #[error("there is no bell to wake each other: {0}")]
    Bell(#[from] PassError),
    /// No descriptor is left.
    #[error("a descriptor cannot be duplicated: {0}; raise the limit on open files (ulimit -n)")]
    Descriptors(Errno),
    /// The queue differs from the granted one.
    #[error(
        "the queue has {slots} slots of {bytes} bytes instead of the {expected_slots} of \
         {expected_bytes} that were granted: map it as granted"
    )]
    OtherGeometry {
        /// Its number of slots.
        slots: u32,
        /// Their size.
        bytes: u32,
        /// The granted number of slots.
        expected_slots: u32,
        /// Their granted size.
        expected_bytes: u32,
    },
}
