//! Messages written in place.

use punctual_linux::clock;
use punctual_linux::memfd::Writable;
use punctual_ring::frames;

use super::{SendError, Sending};
use crate::rings::View;

/// Several messages that are shown to the server together, with one wake-up.
///
/// ```
/// # use punctual_channel::client::{Attach as _, Geometry, Sending};
/// # let geometry = Geometry::new(8, 1_472)?;
/// # let (_made, passed) =
/// #     punctual_channel::rings::server::Made::<punctual_channel::rings::Takes>::new(geometry, 0)?;
/// # let mut sending = Sending::map(passed, geometry)?;
/// let mut batch = sending.batch();
/// for line in [&b"INVITE "[..], b"ACK"] {
///     let Some(mut slot) = batch.claim()? else { break };
///     slot.write(0, b"SIP ");
///     slot.write(4, line);
///     slot.push(4 + line.len());
/// }
/// batch.publish();
/// assert_eq!(sending.unreleased()?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Batch<'a> {
    sending: &'a mut Sending,
}

impl<'a> Batch<'a> {
    #[inline]
    pub(super) fn of(sending: &'a mut Sending) -> Self {
        Self { sending }
    }

    /// Claims the next free slot, if there is one. Nothing is sent if the slot is dropped.
    ///
    /// # Errors
    /// Returns [`SendError::ServerGone`] or [`SendError::Corrupt`]. Messages pushed before stay.
    #[inline]
    pub fn claim(&mut self) -> Result<Option<Slot<'_>>, SendError> {
        if self.sending.peer.is_gone() {
            return Err(SendError::ServerGone);
        }
        Ok(self.sending.puts.claim()?.map(Slot))
    }

    /// Shows the pushed messages to the server. Dropping the batch does the same.
    pub fn publish(self) {}
}

/// Publishes the pushed messages: they are in the queue, and must not wait there for the next one.
impl Drop for Batch<'_> {
    #[inline]
    fn drop(&mut self) {
        // The time of publication decides whether a message left in time.
        let wake = self.sending.puts.publish_with(|| clock::now().as_nanos());
        self.sending.peer.ring(wake);
    }
}

/// A free slot for a message.
#[derive(Debug)]
#[must_use = "nothing is pushed"]
pub struct Slot<'a>(frames::Slot<'a, Writable, View>);

impl Slot<'_> {
    /// Returns the largest number of bytes of a message.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Writes `bytes` from the byte `at` on. The slot still holds the bytes of an old message, so
    /// every pushed byte should be written first.
    ///
    /// # Panics
    /// Panics if the slot has fewer bytes.
    #[inline]
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        self.0.write(at, bytes);
    }

    /// Returns the address of the slot, for the kernel to write [`Self::capacity`] bytes to (as in
    /// read(2)) while the slot is borrowed. Not for a `&mut [u8]`: the server may read at any time.
    pub fn address(&mut self) -> *mut u8 {
        self.0.address()
    }

    /// Puts the first `length` bytes in the queue.
    ///
    /// # Panics
    /// Panics if the slot has fewer bytes.
    #[inline]
    pub fn push(self, length: usize) {
        // The user word is set when the batch is published.
        self.0.push(length, 0);
    }
}
