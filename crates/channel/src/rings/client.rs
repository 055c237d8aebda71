//! The client's half of a queue: it maps what the server has made.

use punctual_linux::memfd::{Readable, Writable};
use punctual_linux::pass::{Bell, Doorbell};
use punctual_ring::frames::Geometry;

use super::{End, Passed, RingError, Side, View};

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
