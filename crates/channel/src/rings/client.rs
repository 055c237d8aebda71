//! The client's half of a queue: it makes both.

use std::os::fd::{AsFd, OwnedFd};

use punctual_linux::memfd::{Others, Readable, Writable};
use punctual_linux::pass::Bell;
use punctual_ring::frames::{Geometry, Producer};

use super::{Passed, Puts, RingError, Takes, View};

/// The memory of a queue, to be passed to a server, and to the next one after it.
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
    let frames = Writable::create("punctual frames", geometry.producer_bytes(), Others::Read)?;
    // For the server to write; and for the one after it.
    let page = Writable::create("punctual page", Geometry::CONSUMER_BYTES, Others::Write)?;
    let memory = Memory { frames: copy(&frames)?, page: copy(&page)? };
    let seen = View(Readable::of(copy(&page)?, Geometry::CONSUMER_BYTES)?);
    Ok((Producer::create(geometry, frames, seen)?, memory))
}

/// A queue from the server to this client.
///
/// # Errors
/// If there is no memory, or no descriptor is left.
pub fn receiving(geometry: Geometry) -> Result<(Takes, Memory), RingError> {
    let bytes = geometry.producer_bytes();
    let frames = Writable::create("punctual frames", bytes, Others::Write)?;
    let page = Writable::create("punctual page", Geometry::CONSUMER_BYTES, Others::Read)?;
    let memory = Memory { frames: copy(&frames)?, page: copy(&page)? };
    // So that there is a queue to attach to before the server has seen it.
    let seen = View(Readable::of(copy(&page)?, Geometry::CONSUMER_BYTES)?);
    Producer::create(geometry, frames, seen)?;
    let frames = View(Readable::of(copy(&memory.frames)?, bytes)?);
    Ok((Takes::attach(page, frames)?, memory))
}

fn copy(memory: &impl AsFd) -> Result<OwnedFd, RingError> {
    rustix::io::fcntl_dupfd_cloexec(memory, 0).map_err(RingError::Descriptors)
}
