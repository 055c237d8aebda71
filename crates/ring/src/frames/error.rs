//! The errors of a queue.

use std::fmt;

use super::GeometryError;

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
