//! The side that puts messages in.

use std::fmt;

use super::geometry::{DESCRIPTOR, DESCRIPTORS, MAGIC, WORD, consumer, is_consumers, producer};
use super::sleep::{Sleeper, Waker};
use super::{AttachError, Corrupt, Geometry, OwnWords, Rest, Slot, Wake, Words};

/// Puts messages in. `O` is its own memory, which no other process needs to write; `R` is the
/// consumer's.
///
/// A message is written into its slot, pushed, and published: one publication may show several.
/// Messages that were pushed and not published are lost when the producer ends.
pub struct Producer<O, R> {
    own: O,
    other: R,
    geometry: Geometry,
    /// The word at which message 0 lies.
    messages: usize,
    pushed: u64,
    published: u64,
    /// The consumer's index as last seen; at most `published`, and at least that minus the slots.
    released: u64,
    /// The number of messages that can be pushed before the consumer's page is read again.
    room: u64,
    ended: Option<Corrupt>,
    sleeper: Sleeper,
    waker: Waker,
}

impl<O: OwnWords, R: Words> Producer<O, R> {
    /// Sets up an empty queue in memory of zeroes: `own` of [`Geometry::producer_bytes`], `other`
    /// of [`Geometry::CONSUMER_BYTES`].
    ///
    /// ```
    /// use punctual_ring::frames::{Consumer, Geometry, Producer, Wake};
    /// use std::sync::atomic::AtomicU64;
    ///
    /// let zeroes = |bytes| -> Vec<AtomicU64> { (0..bytes / 8).map(|_| AtomicU64::new(0)).collect() };
    /// let geometry = Geometry::new(4, 100)?;
    /// let (own, other) = (zeroes(geometry.producer_bytes()), zeroes(Geometry::CONSUMER_BYTES));
    /// let mut producer = Producer::create(geometry, &own, &other)?;
    /// let mut consumer = Consumer::attach(&other, &own)?;
    ///
    /// let mut slot = producer.claim()?.expect("it is empty");
    /// slot.write(0, b"hello");
    /// slot.push(5, 42);
    /// assert_eq!(producer.publish(), Wake::Nobody, "the consumer does not sleep");
    ///
    /// let frame = consumer.take()?.expect("there is one");
    /// let mut bytes = [0; 5];
    /// frame.read(0, &mut bytes);
    /// assert_eq!((&bytes, frame.user()), (b"hello", 42));
    /// assert_eq!(consumer.release(1), Wake::Nobody);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the memory has another size, or the consumer's is not of zeroes.
    pub fn create(geometry: Geometry, own: O, other: R) -> Result<Self, AttachError> {
        Self::prepare(geometry, 0, &own)?;
        let producer = Self::attach(own, other)?;
        match producer.released {
            0 => Ok(producer),
            released => Err(Corrupt::Released { released, least: 0, most: 0 }.into()),
        }
    }

    /// Turns a producer's memory into an empty queue that begins with message `first`, so that a
    /// queue can follow another one. From then on both sides may attach, in either order; the
    /// consumer's page must have been [prepared](super::Consumer::prepare) for the same number by
    /// then.
    ///
    /// # Errors
    /// If the memory has another size.
    pub fn prepare(geometry: Geometry, first: u64, own: &O) -> Result<(), AttachError> {
        geometry.is_held_by(own.count())?;
        own.store(producer::SLOTS, geometry.slots().into());
        own.store(producer::MAX_MESSAGE, geometry.max_message().into());
        own.store(producer::PUSHED, first);
        own.publish(producer::MAGIC, MAGIC);
        Ok(())
    }

    /// Copies every message of `old` that was published and not released, with its user's word, and
    /// publishes the copies. Returns how many there were. `old` is not changed.
    ///
    /// ```
    /// use punctual_ring::frames::{Consumer, Geometry, Producer, Wake};
    /// use std::sync::atomic::AtomicU64;
    ///
    /// let zeroes = |bytes| -> Vec<AtomicU64> { (0..bytes / 8).map(|_| AtomicU64::new(0)).collect() };
    /// let geometry = Geometry::new(4, 100)?;
    /// let (own, other) = (zeroes(geometry.producer_bytes()), zeroes(Geometry::CONSUMER_BYTES));
    /// let mut old = Producer::create(geometry, &own, &other)?;
    /// old.claim()?.expect("it is empty").push(5, 42);
    /// assert_eq!(old.publish(), Wake::Nobody);
    ///
    /// let (own, other) = (zeroes(geometry.producer_bytes()), zeroes(Geometry::CONSUMER_BYTES));
    /// let mut new = Producer::create(geometry, &own, &other)?;
    /// assert_eq!(new.carry_over(&mut old)?, 1);
    /// let consumer = Consumer::attach(&other, &own)?;
    /// assert_eq!(consumer.take()?.expect("it was carried over").user(), 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the consumer's index of `old` is impossible.
    ///
    /// # Panics
    /// If this queue has no room for them: its geometry must be that of `old`, and it must be
    /// empty.
    pub fn carry_over(&mut self, old: &mut Self) -> Result<u64, Corrupt> {
        let count = old.unreleased()?;
        assert_eq!(self.geometry, old.geometry, "queues of different geometry");
        let room = self.free(self.geometry.slots())?;
        assert!(count <= u64::from(room), "{count} messages and room for {room}");
        for number in (0..count).map(|n| old.released.wrapping_add(n)) {
            let descriptor = DESCRIPTORS + DESCRIPTOR * old.geometry.slot(number);
            let length = old.own.load(descriptor) as usize;
            let (from, to) = (old.word_of(number), self.word_of(self.pushed));
            for word in 0..length.div_ceil(WORD) {
                self.own.store(to + word, old.own.load(from + word));
            }
            self.put(length, old.own.load(descriptor + 1));
        }
        // The consumer of a new queue reads all of it when it attaches.
        let _ = self.publish();
        Ok(count)
    }

    /// Goes on where the last producer of this queue ended, after what it published last.
    ///
    /// # Errors
    /// If the memory is no queue, or the consumer's page does not belong to it.
    pub fn attach(own: O, other: R) -> Result<Self, AttachError> {
        let geometry = Geometry::of(&own)?;
        is_consumers(&other)?;
        let published = own.load(producer::PUSHED);
        let oldest = published.wrapping_sub(geometry.slots().into());
        let sleeper = Sleeper::attach(&own, producer::SLEEPS);
        let mut producer = Self {
            messages: geometry.messages(),
            own,
            other,
            geometry,
            pushed: published,
            published,
            released: oldest,
            room: 0,
            ended: None,
            sleeper,
            waker: Waker::new(consumer::SLEEPS),
        };
        producer.look()?;
        Ok(producer)
    }

    /// Returns the number and size of the messages that the queue holds.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the next free slot, if the consumer has left one. Dropping it pushes nothing.
    ///
    /// # Errors
    /// If the consumer's index is impossible; then every later call fails, too.
    #[inline]
    pub fn claim(&mut self) -> Result<Option<Slot<'_, O, R>>, Corrupt> {
        let free = self.free(1)?;
        Ok((free > 0).then_some(Slot::next_of(self)))
    }

    /// Shows the consumer everything that was pushed. Returns whether it must be woken for it.
    #[inline]
    pub fn publish(&mut self) -> Wake {
        if self.published == self.pushed {
            return Wake::Nobody;
        }
        self.own.publish(producer::PUSHED, self.pushed);
        self.published = self.pushed;
        self.waker.look(&self.other)
    }

    /// Publishes like [`Self::publish`], and gives all the messages the word that `user` returns in
    /// place of the one with which they were pushed: for example the time of publication. `user` is
    /// called once, or not at all if there is nothing to show.
    #[inline]
    pub fn publish_with(&mut self, user: impl FnOnce() -> u64) -> Wake {
        if self.published == self.pushed {
            return Wake::Nobody;
        }
        let user = user();
        let mut number = self.published;
        while number != self.pushed {
            let descriptor = DESCRIPTORS + DESCRIPTOR * self.geometry.slot(number);
            self.own.store(descriptor + 1, user);
            number = number.wrapping_add(1);
        }
        self.publish()
    }

    /// Returns the number of the oldest message that the consumer had not released when its page
    /// was last read ([`Self::unreleased`] reads it).
    pub fn released(&self) -> u64 {
        self.released
    }

    /// Announces that this side is going to sleep until there is room, unless there is.
    ///
    /// # Errors
    /// If the consumer's index is impossible; then every later call fails, too.
    ///
    /// # Panics
    /// If something was pushed and not published: the consumer might wait for it meanwhile.
    pub fn rest(&mut self) -> Result<Rest, Corrupt> {
        assert_eq!(self.pushed, self.published, "publish before you sleep");
        if self.room > 0 {
            return Ok(Rest::Work);
        }
        self.sleeper.sleep(&self.own);
        let looked = self.look();
        if looked.is_err() || self.room > 0 {
            self.rise();
        }
        looked.map(|()| if self.room > 0 { Rest::Work } else { Rest::Sleep })
    }

    /// Marks this side as awake. Call this after a sleep, however it ended.
    pub fn rise(&mut self) {
        self.sleeper.rise(&self.own);
    }

    /// Returns how many messages are published and not released, as the consumer's page says.
    ///
    /// # Errors
    /// If its index is impossible; then every later call fails, too.
    pub fn unreleased(&mut self) -> Result<u64, Corrupt> {
        self.look()?;
        Ok(self.published.wrapping_sub(self.released))
    }

    /// Returns how many more messages can be pushed, `most` at most. Reads the consumer's page only
    /// if it knows of fewer.
    #[inline]
    pub(super) fn free(&mut self, most: u32) -> Result<u32, Corrupt> {
        if self.room < most.into() {
            self.look()?;
        }
        // At most `most`.
        Ok(self.room.min(most.into()) as u32)
    }

    /// Returns the number of the next message, modulo 2⁶⁴.
    pub(super) fn pushed(&self) -> u64 {
        self.pushed
    }

    pub(super) fn memory(&self) -> &O {
        &self.own
    }

    /// Returns the word at which the message of this number lies.
    pub(super) fn word_of(&self, number: u64) -> usize {
        self.messages + self.geometry.slot(number) * self.geometry.stride()
    }

    /// Writes bytes of the message of this number, from the byte `at` on.
    pub(super) fn write(&mut self, number: u64, at: usize, bytes: &[u8]) {
        let capacity = self.geometry.max_message() as usize;
        assert!(at <= capacity && bytes.len() <= capacity - at, "beyond the slot");
        let (mut word, first) = (self.word_of(number) + at / WORD, at % WORD);
        // Write whole words, because the other side reads whole words; no other thread writes them.
        let (head, bytes) =
            bytes.split_at(if first == 0 { 0 } else { bytes.len().min(WORD - first) });
        if !head.is_empty() {
            merge(&self.own, word, first, head);
            word += 1;
        }
        let (words, tail) = bytes.as_chunks::<WORD>();
        for bytes in words {
            self.own.store(word, u64::from_ne_bytes(*bytes));
            word += 1;
        }
        if !tail.is_empty() {
            merge(&self.own, word, 0, tail);
        }
    }

    /// Copies the first bytes of the message of this number to the place of the next message.
    #[inline]
    pub(super) fn bring_forward(&mut self, number: u64, length: usize) {
        if number == self.pushed {
            return;
        }
        assert!(length <= self.geometry.max_message() as usize, "beyond the slot");
        let (from, to) = (self.word_of(number), self.word_of(self.pushed));
        for word in 0..length.div_ceil(WORD) {
            self.own.store(to + word, self.own.load(from + word));
        }
    }

    /// Puts the next message, whose bytes are in place, in the queue.
    #[inline]
    pub(super) fn put(&mut self, length: usize, user: u64) {
        assert!(length <= self.geometry.max_message() as usize, "beyond the slot");
        let descriptor = DESCRIPTORS + DESCRIPTOR * self.geometry.slot(self.pushed);
        self.own.store(descriptor, length as u64);
        self.own.store(descriptor + 1, user);
        self.pushed = self.pushed.wrapping_add(1);
        self.room -= 1;
    }

    /// Reads the consumer's page once, and accepts only what is possible.
    #[cold]
    fn look(&mut self) -> Result<(), Corrupt> {
        if let Some(corrupt) = self.ended {
            return Err(corrupt);
        }
        let released = self.other.load(consumer::RELEASED);
        let withheld = self.other.load(consumer::WITHHELD);
        // The consumer's reads of a slot come before the producer's next write to it.
        self.other.acquire();
        let progress = released.wrapping_sub(self.released);
        if progress > self.published.wrapping_sub(self.released) {
            let (least, most) = (self.released, self.published);
            let corrupt = Corrupt::Released { released, least, most };
            self.ended = Some(corrupt);
            // The next claim then reads the page, and fails.
            self.room = 0;
            return Err(corrupt);
        }
        self.released = released;
        let usable = u64::from(self.geometry.slots()).saturating_sub(withheld);
        self.room = usable.saturating_sub(self.pushed.wrapping_sub(released));
        Ok(())
    }
}

/// Replaces some bytes of a word.
fn merge(own: &impl OwnWords, word: usize, at: usize, bytes: &[u8]) {
    let mut merged = own.load(word).to_ne_bytes();
    merged[at..at + bytes.len()].copy_from_slice(bytes);
    own.store(word, u64::from_ne_bytes(merged));
}

impl<O, R> fmt::Debug for Producer<O, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("geometry", &self.geometry)
            .field("pushed", &self.pushed)
            .field("published", &self.published)
            .field("released", &self.released)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
impl<O, R> Producer<O, R> {
    pub(super) fn own(&self) -> &O {
        &self.own
    }

    pub(super) fn other(&self) -> &R {
        &self.other
    }
}
