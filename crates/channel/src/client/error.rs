//! Why nothing was sent, received or drained.

use punctual_linux::pass::PassError;
use punctual_ring::frames::Corrupt;
use thiserror::Error;

use crate::rings::RingError;

/// Why a message is not in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// Longer than the channel's messages.
    #[error(
        "the message has {bytes} bytes, and this channel's have at most {most}: send it in parts, or \
         open a channel of longer messages"
    )]
    TooLong {
        /// What it has.
        bytes: usize,
        /// What it could have.
        most: u32,
    },
    /// No room, and the call does not wait.
    #[error(
        "all {slots} slots are taken or withheld by the server: wait for room, or send no more than \
         was promised"
    )]
    Full {
        /// How many there are.
        slots: u32,
    },
    /// No room came in time.
    #[error(
        "none of {slots} slots became free in time: wait longer, or send no more than was promised"
    )]
    TimedOut {
        /// How many there are.
        slots: u32,
    },
    /// Nobody holds the other end of the bell.
    #[error("the server is gone: connect again and rejoin; what was sent is still in the queue")]
    ServerGone,
    /// The server's part of the memory makes no sense.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// The bell cannot be waited for.
    #[error("the server's bell cannot be heard: {0}")]
    Bell(PassError),
}

/// Why no message was received. It is still there if there was one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReceiveError {
    /// Nothing there, and the call does not wait.
    #[error("no message is there: wait for one")]
    Empty,
    /// Nothing came in time.
    #[error("no message came in time: wait longer")]
    TimedOut,
    /// The message is longer than the place for it, and stays the next one.
    #[error(
        "message {number} has {bytes} bytes, and there is room for {room}: receive it again into \
         more; it is kept"
    )]
    TooSmall {
        /// Which message, counted from the channel's first.
        number: u64,
        /// What it has.
        bytes: usize,
        /// What there was room for.
        room: usize,
    },
    /// Nobody holds the other end of the bell, and all that was put in was received.
    #[error("the server is gone, and no message is left: connect again and rejoin")]
    ServerGone,
    /// The server's part of the memory makes no sense.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// The bell cannot be waited for.
    #[error("the server's bell cannot be heard: {0}")]
    Bell(PassError),
}

/// Why an end does not go on with another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RejoinError {
    /// What the next server has made is no such queue.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The last server's part of the memory makes no sense.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
}

/// Why messages are left in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DrainError {
    /// Some had not left in time.
    #[error("{left} messages had not left in time: wait longer, or close and lose them")]
    TimedOut {
        /// How many.
        left: u64,
    },
    /// Nobody holds the other end of the bell.
    #[error("the server is gone, and {left} messages are left: connect again and rejoin")]
    ServerGone {
        /// How many.
        left: u64,
    },
    /// The server's part of the memory makes no sense.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// The bell cannot be waited for.
    #[error("the server's bell cannot be heard: {0}")]
    Bell(PassError),
}
