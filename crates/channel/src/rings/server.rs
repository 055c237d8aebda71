//! The server's half of a queue: it makes both parts.

use std::marker::PhantomData;
use std::os::fd::OwnedFd;

use punctual_linux::memfd::{self, Lent, Others, Writable};
use punctual_linux::pass::{Bell, Doorbell};
use punctual_ring::frames::Geometry;

use super::{End, Passed, RingError, Side, View};

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
