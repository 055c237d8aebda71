//! The number and size of a queue's messages, and their places in memory.

use std::fmt;

use super::Words;

/// Bytes of a word.
pub(super) const WORD: usize = 8;

/// Words of a page.
const PAGE: usize = 4096 / WORD;

/// Words of a cache line.
const LINE: usize = 64 / WORD;

/// The first word of the producer's memory, which identifies the format and its version.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"frames 1");

/// Words of the producer's first page.
pub(super) mod producer {
    use super::LINE;
    pub(in super::super) const MAGIC: usize = 0;
    pub(in super::super) const SLOTS: usize = 1;
    pub(in super::super) const MAX_MESSAGE: usize = 2;
    /// The number of messages ever published.
    pub(in super::super) const PUSHED: usize = LINE;
    /// The producer's sleeps: odd while it waits for room.
    pub(in super::super) const SLEEPS: usize = 2 * LINE;
}

/// Words of the consumer's page.
pub(super) mod consumer {
    use super::LINE;
    /// The number of messages ever released.
    pub(in super::super) const RELEASED: usize = 0;
    /// The number of slots that the producer must leave empty.
    pub(in super::super) const WITHHELD: usize = 1;
    /// The consumer's sleeps: odd while it waits for messages.
    pub(in super::super) const SLEEPS: usize = LINE;
}

/// The first word of the descriptors, which follow the producer's first page.
pub(super) const DESCRIPTORS: usize = PAGE;

/// Words of a descriptor: the length, and the user's word.
pub(super) const DESCRIPTOR: usize = 2;

/// The number and size of the messages that a queue holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    slots: u32,
    max_message: u32,
}

impl Geometry {
    /// The most slots.
    pub const MAX_SLOTS: u32 = 1 << 16;

    /// The largest message, in bytes.
    pub const MAX_MESSAGE: u32 = 1 << 20;

    /// The most bytes of all messages together.
    pub const MAX_BYTES: u64 = 1 << 30;

    /// The size of the consumer's memory in bytes: a page.
    pub const CONSUMER_BYTES: usize = PAGE * WORD;

    /// Returns the geometry for `slots` messages of up to `max_message` bytes.
    ///
    /// ```
    /// use punctual_ring::frames::{Geometry, GeometryError};
    ///
    /// let geometry = Geometry::new(64, 1472)?;
    /// assert_eq!(geometry.producer_bytes(), 4096 + 4096 + 64 * 1472);
    /// assert!(Geometry::new(63, 1472).is_err());
    /// # Ok::<(), GeometryError>(())
    /// ```
    ///
    /// # Errors
    /// If `slots` is not a power of two up to [`Self::MAX_SLOTS`], `max_message` is not 1 to
    /// [`Self::MAX_MESSAGE`], or all messages together have more than [`Self::MAX_BYTES`].
    pub fn new(slots: u32, max_message: u32) -> Result<Self, GeometryError> {
        if !slots.is_power_of_two() || slots > Self::MAX_SLOTS {
            return Err(GeometryError::Slots { slots: slots.into() });
        }
        if !(1..=Self::MAX_MESSAGE).contains(&max_message) {
            return Err(GeometryError::MaxMessage { max_message: max_message.into() });
        }
        let geometry = Self { slots, max_message };
        let bytes = u64::from(slots) * (geometry.stride() * WORD) as u64;
        if bytes > Self::MAX_BYTES {
            return Err(GeometryError::Bytes { bytes });
        }
        Ok(geometry)
    }

    /// Reads the geometry from a producer's first page, once.
    pub(super) fn of(memory: &impl Words) -> Result<Self, super::AttachError> {
        let words = memory.count();
        if words < PAGE {
            return Err(super::AttachError::WrongSize { words, expected: PAGE });
        }
        let magic = memory.load(producer::MAGIC);
        if magic != MAGIC {
            return Err(super::AttachError::NotFrames { magic });
        }
        let (slots, max) = (memory.load(producer::SLOTS), memory.load(producer::MAX_MESSAGE));
        let slots = u32::try_from(slots).map_err(|_| GeometryError::Slots { slots })?;
        let max = u32::try_from(max).map_err(|_| GeometryError::MaxMessage { max_message: max })?;
        let geometry = Self::new(slots, max)?;
        geometry.is_held_by(words)?;
        Ok(geometry)
    }

    pub(super) fn is_held_by(self, words: usize) -> Result<(), super::AttachError> {
        let expected = self.producer_words();
        if words == expected {
            Ok(())
        } else {
            Err(super::AttachError::WrongSize { words, expected })
        }
    }

    /// Returns the number of messages.
    pub fn slots(self) -> u32 {
        self.slots
    }

    /// Returns the size of the longest message, in bytes.
    pub fn max_message(self) -> u32 {
        self.max_message
    }

    /// Returns the size of the producer's memory in bytes: whole pages of 4096.
    pub fn producer_bytes(self) -> usize {
        self.producer_words() * WORD
    }

    pub(super) fn producer_words(self) -> usize {
        (self.messages() + self.slots as usize * self.stride()).next_multiple_of(PAGE)
    }

    /// Returns the word at which the messages begin, on a page of their own.
    pub(super) fn messages(self) -> usize {
        DESCRIPTORS + (self.slots as usize * DESCRIPTOR).next_multiple_of(PAGE)
    }

    /// Returns the words from one message to the next: no two share a cache line.
    pub(super) fn stride(self) -> usize {
        (self.max_message as usize).next_multiple_of(LINE * WORD) / WORD
    }

    /// Returns the slot of message `index`, counted from the first ever.
    #[inline]
    pub(super) fn slot(self, index: u64) -> usize {
        (index & u64::from(self.slots - 1)) as usize
    }
}

/// The reason why a geometry is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// The number of slots is no power of two, or too large.
    Slots {
        /// The number requested.
        slots: u64,
    },
    /// The messages are empty, or too long.
    MaxMessage {
        /// The size requested, in bytes.
        max_message: u64,
    },
    /// All messages together are too large.
    Bytes {
        /// The size requested, in bytes.
        bytes: u64,
    },
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slots { slots } => write!(
                f,
                "a queue cannot have {slots} slots: choose a power of two up to {}",
                Geometry::MAX_SLOTS
            ),
            Self::MaxMessage { max_message } => write!(
                f,
                "a queue cannot have messages of {max_message} bytes: choose 1 to {}",
                Geometry::MAX_MESSAGE
            ),
            Self::Bytes { bytes } => write!(
                f,
                "the messages of a queue cannot need {bytes} bytes: choose fewer slots or shorter \
                 messages, {} bytes at most",
                Geometry::MAX_BYTES
            ),
        }
    }
}

impl std::error::Error for GeometryError {}
