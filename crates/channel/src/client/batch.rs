//! Messages written where they are to lie.

use punctual_linux::clock;
use punctual_linux::memfd::Writable;
use punctual_ring::frames;

use super::{SendError, Sending};
use crate::rings::View;

/// Several messages, which the server is shown together, and woken for once.
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

    /// The next free slot, if there is one. Nothing is sent if it is dropped.
    ///
    /// # Errors
    /// [`SendError::ServerGone`] or [`SendError::Corrupt`]. What was pushed before stays.
    #[inline]
    pub fn claim(&mut self) -> Result<Option<Slot<'_>>, SendError> {
        if self.sending.peer.is_gone() {
            return Err(SendError::ServerGone);
        }
        Ok(self.sending.puts.claim()?.map(Slot))
    }

    /// Shows the server what was pushed. So does dropping it.
    pub fn publish(self) {}
}

/// What was pushed is in the queue: it must not wait there for the next message.
impl Drop for Batch<'_> {
    #[inline]
    fn drop(&mut self) {
        // With when it was published: by that it is judged whether it left in time.
        let wake = self.sending.puts.publish_with(|| clock::now().as_nanos());
        self.sending.peer.ring(wake);
    }
}

/// Where a message is to lie.
#[derive(Debug)]
#[must_use = "nothing is pushed"]
pub struct Slot<'a>(frames::Slot<'a, Writable, View>);

impl Slot<'_> {
    /// The most bytes of a message.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Writes `bytes` from the byte `at` on. What was written there long ago is still there: what is
    /// pushed should have been written first.
    ///
    /// # Panics
    /// If it has not as many bytes.
    #[inline]
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        self.0.write(at, bytes);
    }

    /// Where it lies, for the kernel to write [`Self::capacity`] bytes to (as in read(2)) while the
    /// slot is borrowed. Not for a `&mut [u8]`: the server may look at any time.
    pub fn address(&mut self) -> *mut u8 {
        self.0.address()
    }

    /// Puts the first `length` bytes in the queue.
    ///
    /// # Panics
    /// If it has not as many bytes.
    #[inline]
    pub fn push(self, length: usize) {
        // The word is given when it is published.
        self.0.push(length, 0);
    }
}
