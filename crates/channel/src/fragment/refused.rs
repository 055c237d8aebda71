//! Why a piece was not taken.

use thiserror::Error;

use super::header::HeaderError;

/// Why a piece was not taken. It changed nothing but the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// It makes no sense by itself.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// Of another channel.
    #[error("it is of channel {channel}, and this one is {wanted}")]
    OtherChannel {
        /// What it says.
        channel: u32,
        /// What was agreed.
        wanted: u32,
    },
    /// Longer than declared.
    #[error("its message would have {length} bytes; {most} are the most that were declared")]
    TooLong {
        /// What it says.
        length: u32,
        /// What was declared.
        most: u32,
    },
    /// Cut too small.
    #[error(
        "its message is cut into pieces of {fragment_bytes} bytes; {least} are the least agreed"
    )]
    TooFine {
        /// What it says.
        fragment_bytes: u16,
        /// What was agreed.
        least: u16,
    },
    /// Its message is complete, given up or long past.
    #[error("message {message} is over; the newest is {newest}")]
    Over {
        /// Its message.
        message: u64,
        /// The newest seen.
        newest: u64,
    },
    /// More messages later than the channel can have sent.
    #[error(
        "message {message} is {ahead} after the newest; {most} are the most there can have been"
    )]
    TooFarAhead {
        /// Its message.
        message: u64,
        /// How many after the newest seen.
        ahead: u64,
        /// How many the contract allows since then.
        most: u64,
    },
    /// It would make another message of it.
    #[error(
        "it says that message {message} has {length} bytes in pieces of {fragment_bytes}; another \
         piece said {first_length} and {first_fragment_bytes}"
    )]
    Contradicts {
        /// Its message.
        message: u64,
        /// What it says of the message.
        length: u32,
        /// What it says of the pieces.
        fragment_bytes: u16,
        /// What the first piece said of the message.
        first_length: u32,
        /// What the first piece said of the pieces.
        first_fragment_bytes: u16,
    },
    /// As many newer messages are incomplete as there is room for.
    #[error("no room for message {message} beside {incomplete} newer ones that are not complete")]
    NoRoom {
        /// Its message.
        message: u64,
        /// How many there is room for.
        incomplete: u32,
    },
}
