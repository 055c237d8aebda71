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
    is_there(&frames, granted.producer_bytes())?;
    is_there(&page, Geometry::CONSUMER_BYTES)?;
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
    is_there(&frames, granted.producer_bytes())?;
    is_there(&page, Geometry::CONSUMER_BYTES)?;
    let frames = Writable::of(frames, granted.producer_bytes())?;
    let page = View(Readable::of(page, Geometry::CONSUMER_BYTES)?);
    let puts = Puts::attach(frames, page)?;
    is_as_granted(puts.geometry(), granted)?;
    Ok(puts)
}

/// Every page is the client's already: else it would be ours when we map it.
fn is_there(memory: &OwnedFd, bytes: usize) -> Result<(), RingError> {
    let status = rustix::fs::fstat(memory).map_err(RingError::Descriptors)?;
    // In units of 512 bytes (stat(3type)).
    let has = u64::try_from(status.st_blocks).unwrap_or(0).saturating_mul(512);
    if has >= bytes as u64 { Ok(()) } else { Err(RingError::Sparse { has, bytes }) }
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
