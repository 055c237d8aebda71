//! The receiving end.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use punctual_linux::pass::WaitOutcome;
use punctual_model::Instant;
use punctual_ring::frames::{Corrupt, Geometry, Rest};

use super::message::Location;
use super::peer::Peer;
use super::{Attach, Message, ReceiveError, RejoinError};
use crate::rings::{Passed, RingError, Side, Takes, client};

/// A message that was copied out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The number of its bytes.
    pub bytes: usize,
    /// Its number, counted from the first message that the server put in: none is missing in
    /// between.
    pub number: u64,
    /// The time at which it came to this host, as the server reports.
    pub arrived: Instant,
}

/// A channel's end in the process that receives.
///
/// ```
/// use punctual_channel::client::{Attach as _, Geometry, ReceiveError, Receiving};
/// use punctual_channel::rings::{Puts, server::Made};
///
/// // The broker does this; here we do it ourselves.
/// let geometry = Geometry::new(8, 1_472)?;
/// let (made, passed) = Made::<Puts>::new(geometry, 0)?;
/// let mut receiving = Receiving::map(passed, geometry)?;
/// made.seal()?;
/// let mut server = made.freeze()?;
/// assert_eq!(receiving.try_receive(&mut []), Err(ReceiveError::Empty));
///
/// let mut slot = server.end.claim()?.expect("it is empty");
/// slot.write(0, b"hello");
/// slot.push(5, 1_000_000);
/// let _ = server.end.publish();
///
/// let mut bytes = [0; 1_472];
/// let received = receiving.receive(&mut bytes)?;
/// assert_eq!(&bytes[..received.bytes], b"hello");
/// assert_eq!((received.number, received.arrived.as_nanos()), (0, 1_000_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Receiving {
    pub(super) takes: Takes,
    /// The queues of earlier servers that are not empty yet, the oldest first.
    pub(super) earlier: VecDeque<Takes>,
    pub(super) peer: Peer,
    /// The oldest message, taken and not released: at most this one is held.
    pub(super) oldest: Option<Location>,
}

impl Attach for Receiving {
    fn map(queue: Passed, geometry: Geometry) -> Result<Self, RingError> {
        Ok(client::map(queue, geometry, 0)?.into())
    }

    fn next_number(&mut self) -> Result<u64, Corrupt> {
        self.takes.refresh()?;
        Ok(self.takes.pushed())
    }

    fn rejoin(&mut self, queue: Passed, first: u64) -> Result<(), RejoinError> {
        self.rise();
        self.takes.refresh()?;
        let Side { end, bell, doorbell } = client::map::<Takes>(queue, self.geometry(), first)?;
        let last = std::mem::replace(&mut self.takes, end);
        // Messages in the last queue are received first.
        if last.released() != last.pushed() {
            self.earlier.push_back(last);
        }
        self.peer = Peer::new(bell, doorbell);
        Ok(())
    }
}

impl From<Side<Takes>> for Receiving {
    fn from(Side { end, bell, doorbell }: Side<Takes>) -> Self {
        let peer = Peer::new(bell, doorbell);
        Self { takes: end, earlier: VecDeque::new(), peer, oldest: None }
    }
}

impl Receiving {
    /// Returns the number of the queue's slots and their size.
    pub fn geometry(&self) -> Geometry {
        self.takes.geometry()
    }

    /// Copies the next message out; waits while there is none.
    ///
    /// # Errors
    /// Returns any error but [`ReceiveError::Empty`] and [`ReceiveError::TimedOut`].
    pub fn receive(&mut self, into: &mut [u8]) -> Result<Received, ReceiveError> {
        self.receive_until(into, Instant::MAX)
    }

    /// Copies the next message out as [`Self::receive`] does, but waits until
    /// [`punctual_linux::clock::now`] is `until` at the longest.
    ///
    /// # Errors
    /// Returns any error but [`ReceiveError::Empty`].
    pub fn receive_until(
        &mut self,
        into: &mut [u8],
        until: Instant,
    ) -> Result<Received, ReceiveError> {
        self.wait_until(until)?;
        self.try_receive(into)
    }

    /// Copies the next message out if there is one.
    ///
    /// # Errors
    /// Returns any error but [`ReceiveError::TimedOut`].
    pub fn try_receive(&mut self, into: &mut [u8]) -> Result<Received, ReceiveError> {
        let message = self.message()?.ok_or(ReceiveError::Empty)?;
        let (number, arrived, bytes) = (message.number(), message.arrived(), message.len());
        let room = into.len();
        let Some(into) = into.get_mut(..bytes) else {
            return Err(ReceiveError::TooSmall { number, bytes, room });
        };
        message.read(0, into);
        message.release();
        Ok(Received { bytes, number, arrived })
    }

    /// Returns the next message in place, if there is one. It stays the next one unless it is
    /// released.
    ///
    /// # Errors
    /// Returns [`ReceiveError::ServerGone`] if none is left, [`ReceiveError::Corrupt`] or
    /// [`ReceiveError::Bell`].
    pub fn message(&mut self) -> Result<Option<Message<'_>>, ReceiveError> {
        self.rise();
        if self.look()? {
            return Ok(Message::of(self));
        }
        // A caller that never waits must learn at some time that the server is gone.
        self.peer.silence().map_err(ReceiveError::Bell)?;
        if !self.peer.is_gone() {
            return Ok(None);
        }
        // The server may have put messages in before its end.
        if self.look()? { Ok(Message::of(self)) } else { Err(ReceiveError::ServerGone) }
    }

    /// Waits until there is a message.
    ///
    /// # Errors
    /// Returns any error but [`ReceiveError::Empty`] and [`ReceiveError::TooSmall`].
    pub fn wait_until(&mut self, until: Instant) -> Result<(), ReceiveError> {
        self.rise();
        loop {
            if self.look()? {
                return Ok(());
            }
            if self.peer.is_gone() {
                return Err(ReceiveError::ServerGone);
            }
            if self.takes.rest()? == Rest::Work {
                continue;
            }
            let heard = self.peer.wait(until);
            self.takes.rise();
            if heard.map_err(ReceiveError::Bell)? == WaitOutcome::TimedOut && !self.look()? {
                return Err(ReceiveError::TimedOut);
            }
        }
    }

    /// Takes the first step of waiting for a message in an event loop
    /// ([how](super#in-an-event-loop)).
    ///
    /// # Errors
    /// Returns [`ReceiveError::ServerGone`] if no message is left, or [`ReceiveError::Corrupt`].
    pub fn before_poll(&mut self) -> Result<Rest, ReceiveError> {
        if self.look()? {
            return Ok(Rest::Work);
        }
        if self.peer.is_gone() {
            return Err(ReceiveError::ServerGone);
        }
        let rest = self.takes.rest()?;
        self.peer.polled = rest == Rest::Sleep;
        Ok(rest)
    }

    /// Takes the step after poll(2), however that ended. If the server is gone, the next call that
    /// finds no message left reports it.
    ///
    /// # Errors
    /// Returns [`ReceiveError::Bell`].
    pub fn after_poll(&mut self) -> Result<(), ReceiveError> {
        let silenced = self.peer.silence();
        self.rise();
        silenced.map_err(ReceiveError::Bell)
    }

    /// Returns whether there is a message; then it is `oldest`.
    fn look(&mut self) -> Result<bool, ReceiveError> {
        while self.oldest.is_none() {
            let Some(earlier) = self.earlier.front() else {
                self.oldest = self.takes.take()?.map(Location::of);
                break;
            };
            self.oldest = earlier.take()?.map(Location::of);
            if self.oldest.is_none() {
                self.earlier.pop_front();
            }
        }
        Ok(self.oldest.is_some())
    }

    /// Returns the queue in which the oldest message is.
    pub(super) fn source(&self) -> &Takes {
        self.earlier.front().unwrap_or(&self.takes)
    }

    /// Releases the oldest message.
    pub(super) fn release(&mut self) {
        self.oldest = None;
        match self.earlier.front_mut() {
            // The server of an earlier queue is gone and need not be woken.
            Some(earlier) => _ = earlier.release(1),
            None => {
                let wake = self.takes.release(1);
                self.peer.ring(wake);
            }
        }
    }

    /// Marks this end as awake, even if it announced a sleep before a poll.
    #[inline]
    fn rise(&mut self) {
        if self.peer.polled {
            self.peer.polled = false;
            self.takes.rise();
        }
    }
}

/// Poll this for reading: [how](super#in-an-event-loop).
impl AsFd for Receiving {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.peer.bell().as_fd()
    }
}
