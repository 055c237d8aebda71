//! Slots that are the producer's until they are pushed: one, or several at a time for a system call
//! that fills many, such as recvmmsg(2).

use std::fmt;

use super::geometry::WORD;
use super::{Addressed, Corrupt, OwnWords, Producer, Words};

/// A slot that is the producer's until it is pushed.
#[must_use = "nothing is pushed"]
pub struct Slot<'a, O, R> {
    producer: &'a mut Producer<O, R>,
}

impl<'a, O: OwnWords, R: Words> Slot<'a, O, R> {
    pub(super) fn next_of(producer: &'a mut Producer<O, R>) -> Self {
        Self { producer }
    }

    /// Returns the size of the slot in bytes.
    pub fn capacity(&self) -> usize {
        self.producer.geometry().max_message() as usize
    }

    /// Returns the producer's own memory, to which [`Self::position`] refers.
    pub fn memory(&self) -> &O {
        self.producer.memory()
    }

    /// Returns the offset of the slot in the producer's own memory, in bytes.
    pub fn position(&self) -> usize {
        self.first_word() * WORD
    }

    /// Writes `bytes` from the byte `at` on. The slot still holds the bytes of an earlier message:
    /// write everything that is pushed.
    ///
    /// # Panics
    /// If the slot has not as many bytes.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let number = self.producer.pushed();
        self.producer.write(number, at, bytes);
    }

    /// Puts the first `length` bytes in the queue, with a word of the user's. The consumer sees the
    /// message once it is published.
    ///
    /// # Panics
    /// If the slot has not as many bytes.
    #[inline]
    pub fn push(self, length: usize, user: u64) {
        self.producer.put(length, user);
    }

    fn first_word(&self) -> usize {
        self.producer.word_of(self.producer.pushed())
    }
}

impl<O: OwnWords + Addressed, R: Words> Slot<'_, O, R> {
    /// Returns the address of the slot, for the kernel to write [`Self::capacity`] bytes to (as in
    /// recvmsg(2)) while the slot is borrowed. Do not make a `&mut [u8]` of it: see [`Words`].
    pub fn address(&mut self) -> *mut u8 {
        self.producer.memory().address(self.first_word()).cast_mut()
    }
}

impl<O, R> fmt::Debug for Slot<'_, O, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("producer", &self.producer).finish()
    }
}

impl<O: OwnWords, R: Words> Producer<O, R> {
    /// Returns the next free slots, as many as the consumer has left but no more than `most`. If
    /// they are dropped, nothing is pushed, and what was written into them is still there when they
    /// are claimed again.
    ///
    /// ```
    /// use punctual_ring::frames::{Consumer, Geometry, Producer, Wake};
    /// use std::sync::atomic::AtomicU64;
    ///
    /// let zeroes = |bytes| -> Vec<AtomicU64> { (0..bytes / 8).map(|_| AtomicU64::new(0)).collect() };
    /// let geometry = Geometry::new(4, 100)?;
    /// let (own, other) = (zeroes(geometry.producer_bytes()), zeroes(Geometry::CONSUMER_BYTES));
    /// let mut producer = Producer::create(geometry, &own, &other)?;
    /// let consumer = Consumer::attach(&other, &own)?;
    ///
    /// let mut slots = producer.claim_several(16)?;
    /// assert_eq!(slots.len(), 4, "there are no more");
    /// for (at, message) in [&b"one"[..], b"not this", b"two"].into_iter().enumerate() {
    ///     slots.write(at, message);
    /// }
    /// slots.push(0, 3, 0);
    /// // A slot that is left out leaves no gap.
    /// slots.push(2, 3, 0);
    /// assert_eq!(producer.publish(), Wake::Nobody);
    ///
    /// for expected in [b"one", b"two"] {
    ///     let mut bytes = [0; 3];
    ///     consumer.take()?.expect("there is one").read(0, &mut bytes);
    ///     assert_eq!(&bytes, expected);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the consumer's index is impossible; then every later call fails, too.
    #[inline]
    pub fn claim_several(&mut self, most: u32) -> Result<Slots<'_, O, R>, Corrupt> {
        let count = self.free(most)?;
        Ok(Slots { first: self.pushed(), count, passed: 0, producer: self })
    }
}

/// Slots that are the producer's until they are pushed, counted from 0.
#[must_use = "nothing is pushed"]
pub struct Slots<'a, O, R> {
    producer: &'a mut Producer<O, R>,
    /// The number of the message that would lie in the first of them.
    first: u64,
    count: u32,
    /// The number of slots, from the first, that were pushed or left out.
    passed: u32,
}

impl<O: OwnWords, R: Words> Slots<'_, O, R> {
    /// Returns the number of slots.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the size of each slot in bytes.
    pub fn capacity(&self) -> usize {
        self.producer.geometry().max_message() as usize
    }

    /// Returns the producer's own memory, to which [`Self::position`] refers.
    pub fn memory(&self) -> &O {
        self.producer.memory()
    }

    /// Returns the offset of the slot `at` in the producer's own memory, in bytes.
    ///
    /// # Panics
    /// If there is no such slot, or it was pushed or left out.
    pub fn position(&self, at: usize) -> usize {
        self.producer.word_of(self.number(at)) * WORD
    }

    /// Writes `bytes` to the beginning of the slot `at`.
    ///
    /// # Panics
    /// If there is no such slot, if it was pushed or left out, or if it has not as many bytes.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let number = self.number(at);
        self.producer.write(number, 0, bytes);
    }

    /// Puts the first `length` bytes of the slot `at` in the queue, with a word of the user's.
    /// Slots before it that were not pushed are left out: their contents are lost, and this message
    /// moves to the first of them, so that the queue has no gap.
    ///
    /// # Panics
    /// If there is no such slot, if it was pushed or left out, or if it has not as many bytes.
    #[inline]
    pub fn push(&mut self, at: usize, length: usize, user: u64) {
        let number = self.number(at);
        // `at` is less than `count`.
        self.passed = at as u32 + 1;
        self.producer.bring_forward(number, length);
        self.producer.put(length, user);
    }

    fn number(&self, at: usize) -> u64 {
        let (passed, count) = (self.passed as usize, self.len());
        assert!(passed <= at && at < count, "slot {at} of {count}, of which {passed} are pushed");
        self.first.wrapping_add(at as u64)
    }
}

impl<O, R> fmt::Debug for Slots<'_, O, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots")
            .field("first", &self.first)
            .field("count", &self.count)
            .field("passed", &self.passed)
            .finish_non_exhaustive()
    }
}
