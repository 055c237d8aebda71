//! The client's half of a queue: it makes both.

use std::os::fd::OwnedFd;

use punctual_linux::memfd::{Others, Readable, Writable};
use punctual_linux::pass::Bell;
use punctual_ring::frames::{Geometry, Producer};

use super::{Passed, Puts, RingError, Takes, View};

/// The memory of a queue, to be passed to a server, and to the next one after it: two descriptors, for as
/// long as the queue is to go on with another server.
#[derive(Debug)]
pub struct Memory {
    frames: OwnedFd,
    page: OwnedFd,
}

impl Memory {
    /// What is to be passed, with a new pair of bells, of which one end is ours.
    ///
    /// # Errors
    /// If no descriptors are left.
    pub fn pass(&self) -> Result<(Bell, Passed), RingError> {
        let (ours, theirs) = Bell::pair()?;
        let passed =
            Passed { frames: copy(&self.frames)?, page: copy(&self.page)?, bell: theirs.into() };
        Ok((ours, passed))
    }
}

/// A queue from this client to the server.
///
/// # Errors
/// If there is no memory, or no descriptor is left.
pub fn sending(geometry: Geometry) -> Result<(Puts, Memory), RingError> {
    let bytes = geometry.producer_bytes();
    let (ours, frames) = Writable::create("punctual frames", bytes, Others::Read)?;
    // For the server to write; and for the one after it.
    let (_, page) = Writable::create("punctual page", Geometry::CONSUMER_BYTES, Others::Write)?;
    let seen = View(Readable::of(copy(&page)?, Geometry::CONSUMER_BYTES)?);
    Ok((Producer::create(geometry, ours, seen)?, Memory { frames, page }))
}

/// A queue from the server to this client.
///
/// # Errors
/// If there is no memory, or no descriptor is left.
pub fn receiving(geometry: Geometry) -> Result<(Takes, Memory), RingError> {
    let bytes = geometry.producer_bytes();
    let (theirs, frames) = Writable::create("punctual frames", bytes, Others::Write)?;
    let (ours, page) = Writable::create("punctual page", Geometry::CONSUMER_BYTES, Others::Read)?;
    // So that there is a queue to attach to before the server has seen it.
    let seen = View(Readable::of(copy(&page)?, Geometry::CONSUMER_BYTES)?);
    Producer::create(geometry, theirs, seen)?;
    let seen = View(Readable::of(copy(&frames)?, bytes)?);
    Ok((Takes::attach(ours, seen)?, Memory { frames, page }))
}

fn copy(memory: &OwnedFd) -> Result<OwnedFd, RingError> {
    rustix::io::fcntl_dupfd_cloexec(memory, 0).map_err(RingError::Descriptors)
}
