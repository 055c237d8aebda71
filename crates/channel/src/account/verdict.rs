//! A snapshot of the account of a channel, and the decision whether the promise was kept.

use std::fmt;

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

/// The verdict on the promise to a channel, up to an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every message that was taken has left in time, except one that still has time.
    Kept,
    /// The promise was broken.
    Broken(Broken),
    /// There is nothing to judge.
    NotJudgeable(Unknown),
}

/// The way in which the promise was broken. If there are several, the first in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Messages that were taken were lost by us or by the network before us.
    Lost {
        /// The number of lost messages.
        messages: u64,
        /// The number of taken messages.
        of: u64,
    },
    /// Messages left after their delay bound.
    Late {
        /// The number of late messages.
        messages: u64,
        /// The number of sent messages.
        of: u64,
        /// The worst tardiness.
        tardiness: Duration,
    },
    /// The message under way should have left.
    Overdue {
        /// The time since it should have left.
        since: Duration,
    },
}

/// The reason why there is nothing to judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Nothing was promised.
    BestEffort,
    /// No message has left yet, and none is overdue.
    NothingSent,
    /// The sending thread has not looked for messages for longer than the delay bound, although
    /// something waits for it: messages in the queue may be overdue.
    NotLooked {
        /// The least time for which it has not looked.
        since: Duration,
    },
}

impl Snapshot {
    /// Returns the verdict up to `now`. A message that is lost by the sender's own fault breaks no
    /// promise, nor does one that is lost because its channel was closed.
    pub fn verdict(&self, now: Instant) -> Verdict {
        self.verdict_unheard(now, Duration::ZERO)
    }

    /// Returns the verdict if work has waited for the sending thread for `unheard` without being
    /// looked at (`SenderThread::unheard`): messages that the account does not show yet may be
    /// overdue then.
    pub fn verdict_unheard(&self, now: Instant, unheard: Duration) -> Verdict {
        if self.delay_bound.is_none() {
            return Verdict::NotJudgeable(Unknown::BestEffort);
        }
        let lost = self.losses.refused + self.losses.unreachable;
        if lost > 0 {
            return Verdict::Broken(Broken::Lost { messages: lost, of: self.taken });
        }
        if self.late > 0 {
            let worst = self.worst_lateness_nanos.unwrap_or(0).max(0).cast_unsigned();
            let tardiness = Duration::from_nanos(worst);
            return Verdict::Broken(Broken::Late { messages: self.late, of: self.sent, tardiness });
        }
        match self.due {
            Some(due) if now > due => Verdict::Broken(Broken::Overdue { since: now - due }),
            _ if self.delay_bound.is_some_and(|bound| unheard > bound) => {
                Verdict::NotJudgeable(Unknown::NotLooked { since: unheard })
            }
            _ if self.sent == 0 => Verdict::NotJudgeable(Unknown::NothingSent),
            _ => Verdict::Kept,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept => f.write_str("kept"),
            Self::Broken(Broken::Lost { messages, of }) => {
                write!(f, "broken: {messages} of {of} messages lost")
            }
            Self::Broken(Broken::Late { messages, of, tardiness }) => {
                write!(f, "broken: {messages} of {of} messages late, by up to {tardiness}")
            }
            Self::Broken(Broken::Overdue { since }) => {
                write!(f, "broken: a message is overdue for {since}")
            }
            Self::NotJudgeable(Unknown::BestEffort) => f.write_str("nothing was promised"),
            Self::NotJudgeable(Unknown::NotLooked { since }) => {
                write!(f, "unknown: the sender has not looked for messages for {since}")
            }
            Self::NotJudgeable(Unknown::NothingSent) => f.write_str("nothing was sent yet"),
        }
    }
}
