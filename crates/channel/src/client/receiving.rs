//! The receiving end, and a message in the memory in which it came.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use punctual_linux::pass::WaitOutcome;
use punctual_model::Instant;
use punctual_ring::frames::{Addressed as _, Corrupt, Frame, Geometry, Rest, Words as _};

use super::peer::{Attach, Peer};
use super::{ReceiveError, RejoinError};
use crate::rings;
use crate::rings::{Passed, RingError, Side, Takes, View};

/// The bytes of a word of shared memory.
const WORD: usize = 8;

/// The number of words that are copied at once.
const COPIED: usize = 16;

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
/// use punctual_channel::rings::{Made, Puts};
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
    takes: Takes,
    /// The queues of earlier servers that are not empty yet, the oldest first.
    earlier: VecDeque<Takes>,
    peer: Peer,
    /// The oldest message, taken and not released: at most this one is held.
    oldest: Option<Location>,
}

impl Attach for Receiving {
    fn map(queue: Passed, geometry: Geometry) -> Result<Self, RingError> {
        Ok(rings::map(queue, geometry, 0)?.into())
    }

    fn next_number(&mut self) -> Result<u64, Corrupt> {
        self.takes.refresh()?;
        Ok(self.takes.pushed())
    }

    fn rejoin(&mut self, queue: Passed, first: u64) -> Result<(), RejoinError> {
        self.rise();
        self.takes.refresh()?;
        let Side { end, bell, doorbell } = rings::map::<Takes>(queue, self.geometry(), first)?;
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
    fn source(&self) -> &Takes {
        self.earlier.front().unwrap_or(&self.takes)
    }

    /// Releases the oldest message.
    fn release(&mut self) {
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

/// The location of a message that was taken.
#[derive(Clone, Copy, Debug)]
struct Location {
    /// The offset in the server's memory, in words.
    word: usize,
    bytes: usize,
    arrived: Instant,
}

impl Location {
    fn of(frame: Frame<'_, View>) -> Self {
        Self {
            word: frame.position() / WORD,
            bytes: frame.len(),
            arrived: Instant::from_nanos(frame.user()),
        }
    }
}

/// The next message of a channel. Its length is checked. Its bytes are in the server's memory; they
/// can be copied out, or passed to the kernel by address.
#[derive(Debug)]
pub struct Message<'a> {
    receiving: &'a mut Receiving,
    location: Location,
}

impl<'a> Message<'a> {
    fn of(receiving: &'a mut Receiving) -> Option<Self> {
        receiving.oldest.map(|location| Self { receiving, location })
    }

    /// Returns the number of its bytes.
    #[allow(clippy::len_without_is_empty, reason = "a message without bytes is a message")]
    pub fn len(&self) -> usize {
        self.location.bytes
    }

    /// Returns the message's number, counted from the first that the server put in, modulo 2⁶⁴.
    pub fn number(&self) -> u64 {
        // The oldest held message is the first that was not released.
        self.receiving.source().released()
    }

    /// Returns when it came to this host, in CLOCK_MONOTONIC, as the server reports.
    pub fn arrived(&self) -> Instant {
        self.location.arrived
    }

    /// Copies its bytes from the byte `at` on.
    ///
    /// # Panics
    /// Panics if the message has fewer bytes.
    pub fn read(&self, at: usize, mut into: &mut [u8]) {
        let Location { word, bytes, .. } = self.location;
        assert!(at <= bytes && into.len() <= bytes - at, "beyond the message");
        let memory = self.receiving.source().memory();
        let (mut word, mut first) = (word + at / WORD, at % WORD);
        let mut copied = [0; COPIED];
        while !into.is_empty() {
            let count = into.len().min(COPIED * WORD - first);
            let words = (first + count).div_ceil(WORD);
            memory.load_all(word, &mut copied[..words]);
            let (some, rest) = into.split_at_mut(count);
            let (head, whole) = some.split_at_mut((WORD - first).min(count));
            head.copy_from_slice(&copied[0].to_ne_bytes()[first..first + head.len()]);
            for (to, from) in whole.chunks_mut(WORD).zip(&copied[1..]) {
                to.copy_from_slice(&from.to_ne_bytes()[..to.len()]);
            }
            (into, word, first) = (rest, word + words, 0);
        }
    }

    /// Returns the address of its [`Self::len`] bytes, for the kernel to read (as in write(2))
    /// while it is borrowed. Not for a `&[u8]`: the server may write at any time.
    pub fn address(&self) -> *const u8 {
        self.receiving.source().memory().address(self.location.word)
    }

    /// Gives its slot back to the server: the message was received.
    pub fn release(self) {
        self.receiving.release();
    }
}
