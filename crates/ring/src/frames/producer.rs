//! The side that puts messages in.

use std::fmt;

use super::geometry::{DESCRIPTOR, DESCRIPTORS, MAGIC, WORD, consumer, producer};
use super::sleep::{Sleeper, Waker};
use super::{Addressed, AttachError, Corrupt, Geometry, OwnWords, Rest, Wake, Words};

/// Puts messages in. `O` is its own memory, which nobody else needs to write, `R` the consumer's.
///
/// A message is written into its slot, pushed, and published: one publication may show several.
/// What was pushed and not published is lost when the producer ends.
pub struct Producer<O, R> {
    own: O,
    other: R,
    geometry: Geometry,
    /// Where message 0 lies, in words.
    messages: usize,
    pushed: u64,
    published: u64,
    /// As last seen; at most `published`, and by no more than the slots.
    released: u64,
    /// How many more can be pushed before the consumer's page is looked at again.
    room: u64,
    ended: Option<Corrupt>,
    sleeper: Sleeper,
    waker: Waker,
}

impl<O: OwnWords, R: Words> Producer<O, R> {
    /// Sets up an empty queue in memory of zeroes: `own` of [`Geometry::producer_bytes`], `other` of
    /// [`Geometry::CONSUMER_BYTES`].
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
        geometry.is_held_by(own.count())?;
        own.store(producer::SLOTS, geometry.slots().into());
        own.store(producer::MAX_MESSAGE, geometry.max_message().into());
        own.store(producer::PUSHED, 0);
        own.publish(producer::MAGIC, MAGIC);
        let producer = Self::attach(own, other)?;
        match producer.released {
            0 => Ok(producer),
            released => Err(Corrupt::Released { released, least: 0, most: 0 }.into()),
        }
    }

    /// Goes on where the last producer of this queue ended, after what it published last.
    ///
    /// # Errors
    /// If this is no queue, or the consumer's page does not belong to it.
    pub fn attach(own: O, other: R) -> Result<Self, AttachError> {
        let geometry = Geometry::of(&own)?;
        super::is_consumers(&other)?;
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

    /// How many messages of which size it holds.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The next free slot, if the consumer has left one. Nothing is pushed if it is dropped.
    ///
    /// # Errors
    /// If the consumer's index is impossible; then for ever.
    #[inline]
    pub fn claim(&mut self) -> Result<Option<Slot<'_, O, R>>, Corrupt> {
        if self.room == 0 {
            self.look()?;
            if self.room == 0 {
                return Ok(None);
            }
        }
        Ok(Some(Slot { producer: self }))
    }

    /// Shows the consumer all that was pushed. Whether it must be woken for it.
    #[inline]
    pub fn publish(&mut self) -> Wake {
        if self.published == self.pushed {
            return Wake::Nobody;
        }
        self.own.publish(producer::PUSHED, self.pushed);
        self.published = self.pushed;
        self.waker.look(&self.other)
    }

    /// Says that this side is going to sleep until there is room, unless there is.
    ///
    /// # Errors
    /// If the consumer's index is impossible; then for ever.
    ///
    /// # Panics
    /// If something was pushed and not published: the consumer might wait for it meanwhile.
    pub fn rest(&mut self) -> Result<Rest, Corrupt> {
        assert_eq!(self.pushed, self.published, "publish before you sleep");
        if self.room > 0 {
            return Ok(Rest::Work);
        }
        self.sleeper.lie_down(&self.own);
        let looked = self.look();
        if looked.is_err() || self.room > 0 {
            self.rise();
        }
        looked.map(|()| if self.room > 0 { Rest::Work } else { Rest::Sleep })
    }

    /// Says that this side is awake: to be called after a sleep, however it ended.
    pub fn rise(&mut self) {
        self.sleeper.rise(&self.own);
    }

    /// How many messages are published and not released, as the consumer's page says.
    ///
    /// # Errors
    /// If its index is impossible; then for ever.
    pub fn unreleased(&mut self) -> Result<u64, Corrupt> {
        self.look()?;
        Ok(self.published.wrapping_sub(self.released))
    }

    /// Reads the consumer's page, once, and believes only what is possible.
    #[cold]
    fn look(&mut self) -> Result<(), Corrupt> {
        if let Some(corrupt) = self.ended {
            return Err(corrupt);
        }
        let released = self.other.load(consumer::RELEASED);
        let withheld = self.other.load(consumer::WITHHELD);
        // What the consumer read of a slot it read before it is written again.
        self.other.acquire();
        let progress = released.wrapping_sub(self.released);
        if progress > self.published.wrapping_sub(self.released) {
            let (least, most) = (self.released, self.published);
            let corrupt = Corrupt::Released { released, least, most };
            self.ended = Some(corrupt);
            // So that the next one to claim looks, and is told.
            self.room = 0;
            return Err(corrupt);
        }
        self.released = released;
        let usable = u64::from(self.geometry.slots()).saturating_sub(withheld);
        self.room = usable.saturating_sub(self.pushed.wrapping_sub(released));
        Ok(())
    }
}

/// A slot that is the producer's until it is pushed.
#[must_use = "nothing is pushed"]
pub struct Slot<'a, O, R> {
    producer: &'a mut Producer<O, R>,
}

impl<O: OwnWords, R: Words> Slot<'_, O, R> {
    /// How many bytes it has.
    pub fn capacity(&self) -> usize {
        self.producer.geometry.max_message() as usize
    }

    /// The producer's own memory, to which [`Self::position`] refers.
    pub fn memory(&self) -> &O {
        &self.producer.own
    }

    /// Where in the producer's own memory it lies, in bytes.
    pub fn position(&self) -> usize {
        self.first_word() * WORD
    }

    /// Writes `bytes` from the byte `at` on. What was written there long ago is still there: what is
    /// pushed should have been written first.
    ///
    /// # Panics
    /// If it has not as many bytes.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= self.capacity() && bytes.len() <= self.capacity() - at, "beyond the slot");
        let (mut word, first) = (self.first_word() + at / WORD, at % WORD);
        let own = &self.producer.own;
        // Whole words, because the other side reads whole words; nobody else writes them.
        let (head, bytes) =
            bytes.split_at(if first == 0 { 0 } else { bytes.len().min(WORD - first) });
        if !head.is_empty() {
            merge(own, word, first, head);
            word += 1;
        }
        let (words, tail) = bytes.as_chunks::<WORD>();
        for bytes in words {
            own.store(word, u64::from_ne_bytes(*bytes));
            word += 1;
        }
        if !tail.is_empty() {
            merge(own, word, 0, tail);
        }
    }

    /// Puts the first `length` bytes in the queue, with a word of the user's. It is seen once it is
    /// published.
    ///
    /// # Panics
    /// If the slot has not as many bytes.
    #[inline]
    pub fn push(self, length: usize, user: u64) {
        assert!(length <= self.capacity(), "beyond the slot");
        let producer = self.producer;
        let descriptor = DESCRIPTORS + DESCRIPTOR * producer.geometry.slot(producer.pushed);
        producer.own.store(descriptor, length as u64);
        producer.own.store(descriptor + 1, user);
        producer.pushed = producer.pushed.wrapping_add(1);
        producer.room -= 1;
    }

    fn first_word(&self) -> usize {
        let producer = &*self.producer;
        producer.messages + producer.geometry.slot(producer.pushed) * producer.geometry.stride()
    }
}

impl<O: OwnWords + Addressed, R: Words> Slot<'_, O, R> {
    /// Where it lies, for the kernel to write [`Self::capacity`] bytes to (as in recvmsg(2)) while
    /// the slot is borrowed. Not for a `&mut [u8]`: see [`Words`].
    pub fn address(&mut self) -> *mut u8 {
        self.producer.own.address(self.first_word()).cast_mut()
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

impl<O, R> fmt::Debug for Slot<'_, O, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("index", &self.producer.pushed).finish_non_exhaustive()
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
