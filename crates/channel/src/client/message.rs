//! A message in the memory in which it came.

use punctual_model::Instant;
use punctual_ring::frames::{Addressed as _, Frame, Words as _};

use super::Receiving;
use crate::rings::View;

/// The bytes of a word of shared memory.
const WORD: usize = 8;

/// The number of words that are copied at once.
const COPIED: usize = 16;

/// The location of a message that was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Location {
    /// The offset in the server's memory, in words.
    word: usize,
    bytes: usize,
    arrived: Instant,
}

impl Location {
    pub(super) fn of(frame: Frame<'_, View>) -> Self {
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
    pub(super) fn of(receiving: &'a mut Receiving) -> Option<Self> {
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
