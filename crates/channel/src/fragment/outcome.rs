//! The outcomes of fragments, the counts of them, and the reasons why a fragment was not taken.

use punctual_model::Instant;
use thiserror::Error;

use super::header::HeaderError;

/// The outcome of a fragment.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken<'a> {
    /// The message is complete.
    Complete(Message<'a>),
    /// More fragments of it are on their way.
    More,
    /// The fragment was there already; it is ignored, whatever it carries.
    Duplicate,
}

/// A complete message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The number, counted from the channel's first. Messages become complete in any order.
    pub number: u64,
    /// The whole message.
    pub bytes: &'a [u8],
    /// The earliest stamp of its fragments, on the sender's clock.
    pub first_sent: Option<Instant>,
}

/// The counts of messages and fragments by outcome, from the first on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that were complete.
    pub complete: u64,
    /// Messages of which no fragment came before a message
    /// [`MOST_IN_FLIGHT`](super::MOST_IN_FLIGHT) numbers later did.
    pub missing: u64,
    /// Messages given up because a newer one was complete for a delay bound.
    pub given_up: u64,
    /// Messages given up incomplete for lack of room, or with
    /// [`MOST_IN_FLIGHT`](super::MOST_IN_FLIGHT) newer ones.
    pub crowded_out: u64,
    /// Messages given up because the sender began again.
    pub cut_off: u64,
    /// Fragments that had come already, their message not complete.
    pub duplicates: u64,
    /// Fragments of messages that were over.
    pub over: u64,
    /// Fragments refused for any other reason.
    pub refused: u64,
    /// The number of times that the sender began again with other numbers.
    pub restarts: u64,
}

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
