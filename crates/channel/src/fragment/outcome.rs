//! What a piece led to, and what became of all of them.

use punctual_model::Instant;

/// What a piece led to.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken<'a> {
    /// The message is complete.
    Complete(Message<'a>),
    /// More pieces of it are on their way.
    More,
    /// It was there already; it is ignored, whatever it carries.
    Duplicate,
}

/// A complete message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Counted from the channel's first. They are complete in any order.
    pub number: u64,
    /// All of it.
    pub bytes: &'a [u8],
    /// The earliest stamp of its pieces, on the sender's clock.
    pub first_sent: Option<Instant>,
}

/// What became of messages and pieces, counted from the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that were complete.
    pub complete: u64,
    /// Messages of which no piece came while a newer one was at most [`MOST_IN_FLIGHT`] − 1 later.
    pub missing: u64,
    /// Messages given up because a newer one was complete for a delay bound.
    pub given_up: u64,
    /// Messages given up incomplete for want of room, or with [`MOST_IN_FLIGHT`] newer ones.
    pub crowded_out: u64,
    /// Messages given up because the sender began again.
    pub cut_off: u64,
    /// Pieces that had come already, their message not complete.
    pub duplicates: u64,
    /// Pieces of messages that were over.
    pub over: u64,
    /// Pieces refused for any other reason.
    pub refused: u64,
    /// How often the sender began again with other numbers.
    pub restarts: u64,
}
