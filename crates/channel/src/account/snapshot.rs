//! The books of a channel at an instant.

use punctual_model::{Duration, Instant};

use super::delays::DelayCounts;

/// What became of the messages of a channel, counted from when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// What is promised; `None` to best effort.
    pub delay_bound: Option<Duration>,
    /// Messages that came.
    pub offered: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// Those that were let in.
    pub taken: u64,
    /// Their bytes.
    pub taken_bytes: u64,
    /// Those of them that came before their contract allowed it and had to wait for that.
    pub not_conforming: u64,
    /// Those that were lost, by cause.
    pub losses: Losses,
    /// Those that were handed over whole.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Those of them that left after their delay bound.
    pub late: u64,
    /// From arrival to the end of the hand-over, the longest.
    pub worst_delay: Duration,
    /// From the absolute deadline to the end of the transmission, the largest: negative where every
    /// message was early. `None` before the first message, and of best effort.
    pub worst_lateness_nanos: Option<i64>,
    /// Of two successive messages, by how much the gap between their hand-overs differed from the gap
    /// between their arrivals; the most.
    pub worst_jitter: Duration,
    /// When the message that was on its way must have left.
    pub due: Option<Instant>,
    /// All delays.
    pub delays: DelayCounts,
}

/// Messages lost, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// By the sender's fault: before its contract allowed it.
    pub too_early: u64,
    /// By the sender's fault: smaller or larger than declared.
    pub wrong_size: u64,
    /// The transport would never have taken them.
    pub refused: u64,
    /// Their destination could not be reached.
    pub unreachable: u64,
    /// Their channel was closed before their turn.
    pub closed: u64,
}

impl Losses {
    /// Messages that had been let in. Their sender has kept to its contract, or waited until it had.
    pub fn of_taken(&self) -> u64 {
        self.refused + self.unreachable + self.closed
    }

    /// All.
    pub fn total(&self) -> u64 {
        self.too_early + self.wrong_size + self.of_taken()
    }
}
