//! The side that takes messages out.

use std::cell::Cell;
use std::fmt;

use super::geometry::{DESCRIPTOR, DESCRIPTORS, WORD, consumer, is_consumers, producer};
use super::sleep::{Sleeper, Waker};
use super::{Addressed, AttachError, Corrupt, Geometry, OwnWords, Rest, Wake, Words};

/// Takes messages out. `O` is its own page; `R` is the producer's memory, which is only read.
///
/// A message is taken, used where it lies, and released; then its slot is the producer's again.
/// Messages that were taken and not released are taken again by the next consumer to attach.
pub struct Consumer<O, R> {
    own: O,
    other: R,
    geometry: Geometry,
    /// The word at which message 0 lies.
    messages: usize,
    released: u64,
    /// The number of messages taken; at most the slots beyond `released`.
    taken: Cell<u64>,
    /// The producer's index as last seen; at least `taken`, and at most the slots beyond
    /// `released`.
    pushed: Cell<u64>,
    ended: Cell<Option<Corrupt>>,
    sleeper: Sleeper,
    waker: Waker,
}

impl<O: OwnWords, R: Words> Consumer<O, R> {
    /// Goes on where the last consumer of this queue ended, after what it released last; with a
    /// page of zeroes, from the first message on.
    ///
    /// # Errors
    /// If `other` is no queue, or `own` does not belong to it.
    pub fn attach(own: O, other: R) -> Result<Self, AttachError> {
        let geometry = Geometry::of(&other)?;
        is_consumers(&own)?;
        let released = own.load(consumer::RELEASED);
        let sleeper = Sleeper::attach(&own, consumer::SLEEPS);
        let consumer = Self {
            messages: geometry.messages(),
            own,
            other,
            geometry,
            released,
            taken: Cell::new(released),
            pushed: Cell::new(released),
            ended: Cell::new(None),
            sleeper,
            waker: Waker::new(producer::SLEEPS),
        };
        consumer.look()?;
        Ok(consumer)
    }

    /// Turns a page of zeroes into that of a queue whose first message has the number `first`.
    ///
    /// # Errors
    /// If it has not the size of a consumer's page.
    pub fn prepare(first: u64, own: &O) -> Result<(), AttachError> {
        is_consumers(own)?;
        own.publish(consumer::RELEASED, first);
        Ok(())
    }

    /// Returns the number and size of the messages that the queue holds.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the producer's memory, to which [`Frame::position`] refers.
    pub fn memory(&self) -> &R {
        &self.other
    }

    /// Returns how many messages were ever released: the number of the oldest that was not, counted
    /// from the first ever, modulo 2⁶⁴.
    pub fn released(&self) -> u64 {
        self.released
    }

    /// Takes the oldest message that was not taken yet, if there is one. Several can be held at a
    /// time, until they are released.
    ///
    /// # Errors
    /// If the producer's index or the message's length is impossible; then every later call fails,
    /// too.
    #[inline]
    pub fn take(&self) -> Result<Option<Frame<'_, R>>, Corrupt> {
        let index = self.taken.get();
        if index == self.pushed.get() {
            self.look()?;
            if index == self.pushed.get() {
                return Ok(None);
            }
        }
        let slot = self.geometry.slot(index);
        let descriptor = DESCRIPTORS + DESCRIPTOR * slot;
        // Each word is read once: the value checked is the value used, whatever the producer writes
        // there meanwhile.
        let length = self.other.load(descriptor);
        let user = self.other.load(descriptor + 1);
        if length > self.geometry.max_message().into() {
            let max_message = self.geometry.max_message();
            return Err(self.end(Corrupt::Length { index, length, max_message }));
        }
        self.taken.set(index.wrapping_add(1));
        let at = self.messages + slot * self.geometry.stride();
        Ok(Some(Frame { memory: &self.other, at, length: length as usize, user }))
    }

    /// Reads the producer's index.
    ///
    /// # Errors
    /// If it is impossible; then every later call fails, too.
    pub fn refresh(&self) -> Result<(), Corrupt> {
        self.look()
    }

    /// Returns the number of the next message that was not published yet, when the index was last
    /// read.
    pub fn pushed(&self) -> u64 {
        self.pushed.get()
    }

    /// Returns how many messages were published and not taken, when the index was last read. At
    /// zero, the next [`take`](Self::take) reads it again.
    pub fn known(&self) -> u64 {
        self.pushed.get().wrapping_sub(self.taken.get())
    }

    /// Returns how many messages are taken and not released.
    pub fn held(&self) -> u64 {
        self.taken.get().wrapping_sub(self.released)
    }

    /// Gives the slots of the oldest `count` messages held back to the producer. Returns whether
    /// the producer must be woken for it.
    ///
    /// # Panics
    /// If fewer are held.
    #[inline]
    pub fn release(&mut self, count: u64) -> Wake {
        assert!(count <= self.held(), "released what was not taken");
        if count == 0 {
            return Wake::Nobody;
        }
        self.released = self.released.wrapping_add(count);
        self.own.publish(consumer::RELEASED, self.released);
        self.waker.look(&self.other)
    }

    /// Asks the producer to leave this many slots empty: none at first, all of them to stop it. It
    /// may still use the slots that it already knows to be free. Returns whether the producer must
    /// be woken for it.
    ///
    /// Nothing makes the producer obey: a policer looks at what it sent.
    pub fn withhold(&mut self, slots: u32) -> Wake {
        self.own.publish(consumer::WITHHELD, slots.into());
        self.waker.look(&self.other)
    }

    /// Announces that this side is going to sleep until there is a message, unless there is.
    ///
    /// # Errors
    /// If the producer's index is impossible; then every later call fails, too.
    pub fn rest(&mut self) -> Result<Rest, Corrupt> {
        if self.is_behind() {
            return Ok(Rest::Work);
        }
        self.sleeper.sleep(&self.own);
        let looked = self.look();
        if looked.is_err() || self.is_behind() {
            self.rise();
        }
        looked.map(|()| if self.is_behind() { Rest::Work } else { Rest::Sleep })
    }

    /// Marks this side as awake. Call this after a sleep, however it ended.
    pub fn rise(&mut self) {
        self.sleeper.rise(&self.own);
    }

    fn is_behind(&self) -> bool {
        self.taken.get() != self.pushed.get()
    }

    /// Reads the producer's index once, and accepts it only if it is possible.
    fn look(&self) -> Result<(), Corrupt> {
        if let Some(corrupt) = self.ended.get() {
            return Err(corrupt);
        }
        let pushed = self.other.load(producer::PUSHED);
        // Slots are read after the index: their contents were written before it was published.
        self.other.acquire();
        let seen = self.pushed.get().wrapping_sub(self.released);
        let now = pushed.wrapping_sub(self.released);
        let slots = u64::from(self.geometry.slots());
        if now < seen || now > slots {
            let (least, most) = (self.pushed.get(), self.released.wrapping_add(slots));
            return Err(self.end(Corrupt::Pushed { pushed, least, most }));
        }
        self.pushed.set(pushed);
        Ok(())
    }

    #[cold]
    fn end(&self, corrupt: Corrupt) -> Corrupt {
        self.ended.set(Some(corrupt));
        // The next call to `take` then reads the index, and fails.
        self.pushed.set(self.taken.get());
        corrupt
    }
}

/// A message where it lies. Its length and the user's word were copied and checked when it was
/// taken; its bytes may change at any time, also between two reads.
pub struct Frame<'a, R> {
    memory: &'a R,
    at: usize,
    length: usize,
    user: u64,
}

impl<R> Clone for Frame<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Frame<'_, R> {}

impl<R: Words> Frame<'_, R> {
    /// Returns the length of the message in bytes.
    #[allow(clippy::len_without_is_empty, reason = "a message without bytes is a message")]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns the user's word.
    pub fn user(&self) -> u64 {
        self.user
    }

    /// Returns the offset of the message in the producer's memory, in bytes. It stays there until
    /// it is released.
    pub fn position(&self) -> usize {
        self.at * WORD
    }

    /// Copies its bytes from the byte `at` on. Two copies may differ: check the copy that you use.
    ///
    /// # Panics
    /// If it has not as many bytes.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        assert!(at <= self.length && into.len() <= self.length - at, "beyond the message");
        let (mut word, first) = (self.at + at / WORD, at % WORD);
        let (head, into) =
            into.split_at_mut(if first == 0 { 0 } else { into.len().min(WORD - first) });
        if !head.is_empty() {
            let bytes = self.memory.load(word).to_ne_bytes();
            head.copy_from_slice(&bytes[first..first + head.len()]);
            word += 1;
        }
        // Copy several words at a time, so that the bounds of the memory are checked once for all
        // of them.
        let (words, tail) = into.as_chunks_mut::<WORD>();
        let mut copied = [0; 16];
        for bytes in words.chunks_mut(copied.len()) {
            let copied = &mut copied[..bytes.len()];
            self.memory.load_all(word, copied);
            for (to, from) in bytes.iter_mut().zip(copied) {
                *to = from.to_ne_bytes();
            }
            word += bytes.len();
        }
        if !tail.is_empty() {
            tail.copy_from_slice(&self.memory.load(word).to_ne_bytes()[..tail.len()]);
        }
    }
}

impl<R: Addressed> Frame<'_, R> {
    /// Returns the address of its [`Self::len`] bytes, for the kernel to read (as in sendmsg(2))
    /// until the message is released. Do not make a `&[u8]` of it: see [`Words`].
    pub fn address(&self) -> *const u8 {
        self.memory.address(self.at)
    }
}

impl<O, R> fmt::Debug for Consumer<O, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("geometry", &self.geometry)
            .field("released", &self.released)
            .field("taken", &self.taken)
            .field("pushed", &self.pushed)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl<R> fmt::Debug for Frame<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame")
            .field("length", &self.length)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
impl<O, R> Consumer<O, R> {
    pub(super) fn own(&self) -> &O {
        &self.own
    }

    pub(super) fn other(&self) -> &R {
        &self.other
    }
}
