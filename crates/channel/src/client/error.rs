//! The errors of sending, receiving and draining.

use punctual_linux::pass::PassError;
use punctual_ring::frames::Corrupt;
use thiserror::Error;

use crate::rings::RingError;

/// The reason why a message is not in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// The message is longer than the channel's messages.
    #[error(
        "the message has {bytes} bytes, and this channel's have at most {most}: send it in parts, or \
         open a channel of longer messages"
    )]
    TooLong {
        /// The length of the message.
        bytes: usize,
        /// The largest length.
        most: u32,
    },
    /// There is no room, and the call does not wait.
    #[error(
        "all {slots} slots are taken or withheld by the server: wait for room, or send no more than \
         was promised"
    )]
    Full {
        /// The number of slots.
        slots: u32,
    },
    /// No room became free in time.
    #[error(
        "none of {slots} slots became free in time: wait longer, or send no more than was promised"
    )]
    TimedOut {
        /// The number of slots.
        slots: u32,
    },
    /// The server's end of the bell is closed.
    #[error("the server is gone: connect again and rejoin; what was sent is still in the queue")]
    ServerGone,
    /// The server's part of the memory is inconsistent.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// Waiting for the bell failed.
    #[error("the server's bell cannot be heard: {0}")]
    Bell(PassError),
}

/// The reason why no message was received. A message that was there is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReceiveError {
    /// No message is there, and the call does not wait.
    #[error("no message is there: wait for one")]
    Empty,
    /// No message came in time.
    #[error("no message came in time: wait longer")]
    TimedOut,
    /// The message is longer than the buffer, and stays the next one.
    #[error(
        "message {number} has {bytes} bytes, and there is room for {room}: receive it again into \
         more; it is kept"
    )]
    TooSmall {
        /// The number of the message, counted from the channel's first.
        number: u64,
        /// The length of the message.
        bytes: usize,
        /// The length of the buffer.
        room: usize,
    },
    /// The server's end of the bell is closed, and every message was received.
    #[error("the server is gone, and no message is left: connect again and rejoin")]
    ServerGone,
    /// The server's part of the memory is inconsistent.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// Waiting for the bell failed.
    #[error("the server's bell cannot be heard: {0}")]
    Bell(PassError),
}

/// The reason why an end does not go on with another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RejoinError {
    /// The memory of the next server is no such queue.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The last server's part of the memory is inconsistent.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
}

/// The reason why messages are left in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DrainError {
    /// Some messages had not left in time.
    #[error("{left} messages had not left in time: wait longer, or close and lose them")]
    TimedOut {
        /// The number of messages left.
        left: u64,
    },
    /// The server's end of the bell is closed.
    #[error("the server is gone, and {left} messages are left: connect again and rejoin")]
    ServerGone {
        /// The number of messages left.
        left: u64,
    },
    /// The server's part of the memory is inconsistent.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// Waiting for the bell failed.
    #[error("the server's bell cannot be heard: {0}")]
    Bell(PassError),
}
