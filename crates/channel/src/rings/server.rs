//! The server's half of a queue: it attaches to what the client made, as far as that is as granted.

use std::os::fd::OwnedFd;

use punctual_linux::memfd::{Readable, Writable};
use punctual_ring::frames::Geometry;

use super::{Puts, RingError, Takes, View};

/// The end of a queue from a client. It goes on after what the server before released.
///
/// # Errors
/// If the memory could hurt this process, or is no such queue.
pub fn takes(frames: OwnedFd, page: OwnedFd, granted: Geometry) -> Result<Takes, RingError> {
    let frames = View(Readable::of(frames, granted.producer_bytes())?);
    let page = Writable::of(page, Geometry::CONSUMER_BYTES)?;
    let takes = Takes::attach(page, frames)?;
    is_as_granted(takes.geometry(), granted)?;
    Ok(takes)
}

/// The end of a queue to a client. It goes on after what the server before published.
///
/// # Errors
/// If the memory could hurt this process, or is no such queue.
pub fn puts(frames: OwnedFd, page: OwnedFd, granted: Geometry) -> Result<Puts, RingError> {
    let frames = Writable::of(frames, granted.producer_bytes())?;
    let page = View(Readable::of(page, Geometry::CONSUMER_BYTES)?);
    let puts = Puts::attach(frames, page)?;
    is_as_granted(puts.geometry(), granted)?;
    Ok(puts)
}

fn is_as_granted(has: Geometry, granted: Geometry) -> Result<(), RingError> {
    if has == granted {
        return Ok(());
    }
    Err(RingError::OtherGeometry {
        slots: has.slots(),
        bytes: has.max_message(),
        expected_slots: granted.slots(),
        expected_bytes: granted.max_message(),
    })
}
