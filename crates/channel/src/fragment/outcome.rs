//! The outcomes of fragments, and the counts of them.

use punctual_model::Instant;

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
