//! The number and size of a queue's messages, their places in memory, and the errors of a queue.

use std::fmt;

use super::memory::Words;

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

/// A violation of the protocol by the other side. It ends this queue and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corrupt {
    /// The producer's index went back, or beyond the slots there are.
    Pushed {
        /// The index.
        pushed: u64,
        /// The least that it may be: its previous value.
        least: u64,
        /// The most that it may be: what was released, and the slots.
        most: u64,
    },
    /// The consumer's index went back, or beyond what was published.
    Released {
        /// The index.
        released: u64,
        /// The least that it may be: its previous value.
        least: u64,
        /// The most that it may be: what was published.
        most: u64,
    },
    /// A message is longer than its slot.
    Length {
        /// The message, counted from the first ever.
        index: u64,
        /// Its stated length in bytes.
        length: u64,
        /// The most bytes that it can have.
        max_message: u32,
    },
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pushed { pushed, least, most } => write!(
                f,
                "the producer says it has pushed {pushed} messages, which can be {least} to {most}"
            ),
            Self::Released { released, least, most } => write!(
                f,
                "the consumer says it has released {released} messages, which can be {least} to \
                 {most}"
            ),
            Self::Length { index, length, max_message } => {
                write!(f, "message {index} claims {length} bytes, and its slot has {max_message}")
            }
        }?;
        write!(f, ": the shared memory is corrupt; close this queue and set up another")
    }
}

impl std::error::Error for Corrupt {}

/// The reason why memory cannot be used as a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachError {
    /// No producer has set it up, or one of another version has.
    NotFrames {
        /// Its first word.
        magic: u64,
    },
    /// The producer's page states an impossible geometry.
    Geometry(GeometryError),
    /// One of the two memories has the wrong size.
    WrongSize {
        /// Its size in words of 8 bytes.
        words: usize,
        /// The size that it must have.
        expected: usize,
    },
    /// The two indices contradict each other.
    Corrupt(Corrupt),
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFrames { magic } => write!(
                f,
                "the memory begins with {magic:#018x} and so is no queue of this version: have its \
                 producer set it up before it is passed on"
            ),
            Self::Geometry(error) => write!(f, "the memory's first page is wrong: {error}"),
            Self::WrongSize { words, expected } => write!(
                f,
                "the memory has {} bytes instead of {}: pass on the one that was made for this \
                 queue",
                words * 8,
                expected * 8
            ),
            Self::Corrupt(corrupt) => corrupt.fmt(f),
        }
    }
}

impl std::error::Error for AttachError {}

impl From<GeometryError> for AttachError {
    fn from(error: GeometryError) -> Self {
        Self::Geometry(error)
    }
}

impl From<Corrupt> for AttachError {
    fn from(corrupt: Corrupt) -> Self {
        Self::Corrupt(corrupt)
    }
}

/// Checks that the memory is as large as a consumer's page.
pub(super) fn is_consumers(memory: &impl Words) -> Result<(), AttachError> {
    let (words, expected) = (memory.count(), Geometry::CONSUMER_BYTES / WORD);
    if words == expected { Ok(()) } else { Err(AttachError::WrongSize { words, expected }) }
}
