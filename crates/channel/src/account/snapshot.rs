//! A snapshot of the account of a channel.

use punctual_model::{Duration, Instant};

use super::delays::DelayCounts;

/// The fate of a channel's messages, counted from when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The promised bound; `None` for best effort.
    pub delay_bound: Option<Duration>,
    /// Messages that came.
    pub offered: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// Messages that were taken.
    pub taken: u64,
    /// Their bytes.
    pub taken_bytes: u64,
    /// Taken messages that came before their contract allowed it and had to wait.
    pub not_conforming: u64,
    /// Messages that were lost, by cause.
    pub losses: Losses,
    /// Messages that were handed over completely.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Sent messages that left after their delay bound.
    pub late: u64,
    /// The longest time from arrival to the end of the hand-over.
    pub worst_delay: Duration,
    /// The largest time from the absolute deadline to the end of the transmission: negative if
    /// every message was early. `None` before the first message, and for best effort.
    pub worst_lateness_nanos: Option<i64>,
    /// The largest difference, for two successive messages, between the gap of their hand-overs and
    /// the gap of their arrivals.
    pub worst_jitter: Duration,
    /// The time at which the message under way must have left.
    pub due: Option<Instant>,
    /// All delays.
    pub delays: DelayCounts,
}

/// Messages lost, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// The sender's fault: before the contract allowed it.
    pub too_early: u64,
    /// The sender's fault: smaller or larger than declared.
    pub wrong_size: u64,
    /// The transport would never have taken them.
    pub refused: u64,
    /// Their destination could not be reached.
    pub unreachable: u64,
    /// Their channel was closed before their turn.
    pub closed: u64,
}

impl Losses {
    /// Returns the number of messages lost after they were taken. Their sender kept to its
    /// contract, or waited until it did.
    pub fn of_taken(&self) -> u64 {
        self.refused + self.unreachable + self.closed
    }

    /// Returns the number of all lost messages.
    pub fn total(&self) -> u64 {
        self.too_early + self.wrong_size + self.of_taken()
    }
}
