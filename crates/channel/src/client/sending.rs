//! The sending end, and messages written in place.

use std::os::fd::{AsFd, BorrowedFd};

use punctual_linux::clock;
use punctual_linux::memfd::Writable;
use punctual_linux::pass::WaitOutcome;
use punctual_model::{Duration, Instant};
use punctual_ring::frames;
use punctual_ring::frames::{Corrupt, Geometry, Rest};

use super::peer::{Attach, Peer};
use super::{DrainError, RejoinError, SendError};
use crate::rings;
use crate::rings::{Passed, Puts, RingError, Side, View};

/// The shortest and the longest pause between two looks at a queue that is drained: the server
/// wakes a client that waits for room, and not one that waits for an empty queue.
const LOOKS: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(5));

/// A channel's end in the process that sends.
///
/// ```
/// use punctual_channel::client::{Attach as _, Geometry, Sending};
/// use punctual_channel::rings::{Made, Takes};
///
/// // The broker does this; here we do it ourselves.
/// let geometry = Geometry::new(8, 1_472)?;
/// let (made, passed) = Made::<Takes>::new(geometry, 0)?;
/// let mut sending = Sending::map(passed, geometry)?;
/// made.seal()?;
/// let server = made.freeze()?;
///
/// sending.send(b"hello")?;
/// let frame = server.end.take()?.expect("it is there");
/// assert_eq!((frame.len(), sending.unreleased()?), (5, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Sending {
    puts: Puts,
    peer: Peer,
}

impl Attach for Sending {
    fn map(queue: Passed, geometry: Geometry) -> Result<Self, RingError> {
        Ok(rings::map(queue, geometry, 0)?.into())
    }

    fn next_number(&mut self) -> Result<u64, Corrupt> {
        self.puts.unreleased()?;
        Ok(self.puts.released())
    }

    fn rejoin(&mut self, queue: Passed, first: u64) -> Result<(), RejoinError> {
        self.rise();
        // Messages that a leaked batch left unpublished go on, too.
        drop(self.batch());
        let Side { end: mut puts, bell, doorbell } =
            rings::map::<Puts>(queue, self.geometry(), first)?;
        puts.carry_over(&mut self.puts)?;
        (self.puts, self.peer) = (puts, Peer::new(bell, doorbell));
        Ok(())
    }
}

impl From<Side<Puts>> for Sending {
    fn from(Side { end, bell, doorbell }: Side<Puts>) -> Self {
        Self { puts: end, peer: Peer::new(bell, doorbell) }
    }
}

impl Sending {
    /// Returns the number of the queue's slots and their size.
    pub fn geometry(&self) -> Geometry {
        self.puts.geometry()
    }

    /// Puts a copy of `message` into the queue; waits while there is no room.
    ///
    /// # Errors
    /// Returns any error but [`SendError::Full`] and [`SendError::TimedOut`].
    #[inline]
    pub fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        self.send_until(message, Instant::MAX)
    }

    /// Puts a copy of `message` into the queue as [`Self::send`] does, but waits until
    /// [`clock::now`] is `until` at the longest.
    ///
    /// # Errors
    /// Returns any error but [`SendError::Full`].
    pub fn send_until(&mut self, message: &[u8], until: Instant) -> Result<(), SendError> {
        while !self.put(message)? {
            self.wait_until(until)?;
        }
        Ok(())
    }

    /// Puts a copy of `message` into the queue if there is room.
    ///
    /// # Errors
    /// Returns any error but [`SendError::TimedOut`].
    #[inline]
    pub fn try_send(&mut self, message: &[u8]) -> Result<(), SendError> {
        if self.put(message)? { Ok(()) } else { self.full() }
    }

    /// Begins a batch of messages that are written in place and shown to the server together.
    #[inline]
    pub fn batch(&mut self) -> Batch<'_> {
        self.rise();
        Batch::of(self)
    }

    /// Returns whether a message could be sent without waiting. The server may withhold slots, so
    /// even an empty queue can have no room.
    ///
    /// # Errors
    /// Returns [`SendError::ServerGone`] or [`SendError::Corrupt`].
    pub fn has_room(&mut self) -> Result<bool, SendError> {
        Ok(self.batch().claim()?.is_some())
    }

    /// Waits until there is room.
    ///
    /// # Errors
    /// Returns any error but [`SendError::Full`] and [`SendError::TooLong`].
    pub fn wait_until(&mut self, until: Instant) -> Result<(), SendError> {
        // The server would not see messages that a leaked batch left unpublished while we sleep.
        drop(self.batch());
        loop {
            if self.peer.is_gone() {
                return Err(SendError::ServerGone);
            }
            if self.puts.rest()? == Rest::Work {
                return Ok(());
            }
            let heard = self.peer.wait(until);
            self.puts.rise();
            if heard.map_err(SendError::Bell)? == WaitOutcome::TimedOut && !self.has_room()? {
                return Err(SendError::TimedOut { slots: self.geometry().slots() });
            }
        }
    }

    /// Returns the number of messages that have not left yet: the server gives a slot back when it
    /// has handed over the last packet of its message.
    ///
    /// # Errors
    /// Returns an error if the server's part of the memory is inconsistent.
    pub fn unreleased(&mut self) -> Result<u64, Corrupt> {
        self.puts.unreleased()
    }

    /// Waits until every message has left.
    ///
    /// # Errors
    /// The error gives the number of messages that are left.
    pub fn drain_until(&mut self, until: Instant) -> Result<(), DrainError> {
        self.rise();
        let (mut pause, longest) = LOOKS;
        loop {
            let left = self.unreleased()?;
            if left == 0 {
                return Ok(());
            }
            if self.peer.is_gone() {
                return Err(DrainError::ServerGone { left });
            }
            let now = clock::now();
            if now >= until {
                return Err(DrainError::TimedOut { left });
            }
            // The bell can only ring for the server's end, and that ends the wait at once.
            self.peer.wait(until.min(now.saturating_add(pause))).map_err(DrainError::Bell)?;
            pause = longest.min(pause + pause);
        }
    }

    /// Takes the first step of waiting for room in an event loop ([how](super#in-an-event-loop)).
    ///
    /// # Errors
    /// Returns [`SendError::ServerGone`] or [`SendError::Corrupt`].
    pub fn before_poll(&mut self) -> Result<Rest, SendError> {
        drop(self.batch());
        if self.peer.is_gone() {
            return Err(SendError::ServerGone);
        }
        let rest = self.puts.rest()?;
        self.peer.polled = rest == Rest::Sleep;
        Ok(rest)
    }

    /// Takes the step after poll(2), however that ended. If the server is gone, the next call
    /// reports it.
    ///
    /// # Errors
    /// Returns [`SendError::Bell`].
    pub fn after_poll(&mut self) -> Result<(), SendError> {
        let silenced = self.peer.silence();
        self.rise();
        silenced.map_err(SendError::Bell)
    }

    /// Puts a message in; returns whether there was room.
    #[inline]
    fn put(&mut self, message: &[u8]) -> Result<bool, SendError> {
        let most = self.geometry().max_message();
        if message.len() > most as usize {
            return Err(SendError::TooLong { bytes: message.len(), most });
        }
        let mut batch = self.batch();
        let Some(mut slot) = batch.claim()? else { return Ok(false) };
        slot.write(0, message);
        slot.push(message.len());
        Ok(true)
    }

    /// Reports that there is no room. A caller that never waits must learn at some time that the
    /// server is gone.
    #[cold]
    fn full(&mut self) -> Result<(), SendError> {
        self.peer.silence().map_err(SendError::Bell)?;
        Err(match self.peer.is_gone() {
            true => SendError::ServerGone,
            false => SendError::Full { slots: self.geometry().slots() },
        })
    }

    /// Marks this end as awake, even if it announced a sleep before a poll.
    #[inline]
    fn rise(&mut self) {
        if self.peer.polled {
            self.peer.polled = false;
            self.puts.rise();
        }
    }
}

/// Poll this for reading: [how](super#in-an-event-loop).
impl AsFd for Sending {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.peer.bell().as_fd()
    }
}

/// Several messages that are shown to the server together, with one wake-up.
///
/// ```
/// # use punctual_channel::client::{Attach as _, Geometry, Sending};
/// # let geometry = Geometry::new(8, 1_472)?;
/// # let (_made, passed) =
/// #     punctual_channel::rings::Made::<punctual_channel::rings::Takes>::new(geometry, 0)?;
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
    fn of(sending: &'a mut Sending) -> Self {
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
