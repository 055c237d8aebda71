//! The reasons why a fragment was not taken.

use thiserror::Error;

use super::header::HeaderError;

/// The reason why a fragment was not taken. The fragment changed nothing but the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// It is invalid by itself.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// It belongs to another channel.
    #[error("it is of channel {channel}, and this one is {wanted}")]
    OtherChannel {
        /// The channel in its header.
        channel: u32,
        /// The agreed channel.
        wanted: u32,
    },
    /// Its message is longer than declared.
    #[error("its message would have {length} bytes; {most} are the most that were declared")]
    TooLong {
        /// The length in its header.
        length: u32,
        /// The longest declared length.
        most: u32,
    },
    /// Its message is cut into too small fragments.
    #[error(
        "its message is cut into pieces of {fragment_bytes} bytes; {least} are the least agreed"
    )]
    TooFine {
        /// The fragment length in its header.
        fragment_bytes: u16,
        /// The least agreed length.
        least: u16,
    },
    /// Its message is complete, given up or too old.
    #[error("message {message} is over; the newest is {newest}")]
    Over {
        /// The number of its message.
        message: u64,
        /// The newest message seen.
        newest: u64,
    },
    /// Its message is further ahead than the channel can have sent.
    #[error(
        "message {message} is {ahead} after the newest; {most} are the most there can have been"
    )]
    TooFarAhead {
        /// The number of its message.
        message: u64,
        /// The number of messages after the newest seen.
        ahead: u64,
        /// The number that the contract allows since then.
        most: u64,
    },
    /// It contradicts an earlier fragment of its message.
    #[error(
        "it says that message {message} has {length} bytes in pieces of {fragment_bytes}; another \
         piece said {first_length} and {first_fragment_bytes}"
    )]
    Contradicts {
        /// The number of its message.
        message: u64,
        /// The message length in its header.
        length: u32,
        /// The fragment length in its header.
        fragment_bytes: u16,
        /// The message length in the first fragment's header.
        first_length: u32,
        /// The fragment length in the first fragment's header.
        first_fragment_bytes: u16,
    },
    /// The slots are taken by newer messages that are incomplete.
    #[error("no room for message {message} beside {incomplete} newer ones that are not complete")]
    NoRoom {
        /// The number of its message.
        message: u64,
        /// The number of slots.
        incomplete: u32,
    },
}
