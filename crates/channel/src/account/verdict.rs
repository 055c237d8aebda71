//! Whether the promise was kept.

use std::fmt;

use punctual_model::{Duration, Instant};

use super::snapshot::Snapshot;

/// Whether what was promised to a channel was kept, up to an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every message that was let in has left in time, but for one that still has time.
    Kept,
    /// It was not.
    Broken(Broken),
    /// There is nothing to say.
    NotJudgeable(Unknown),
}

/// What was not kept. Of several, the first in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Messages that were let in were lost by us or by the network before us.
    Lost {
        /// How many.
        messages: u64,
        /// Of how many let in.
        of: u64,
    },
    /// Messages left after their delay bound.
    Late {
        /// How many.
        messages: u64,
        /// Of how many sent.
        of: u64,
        /// The worst of them.
        tardiness: Duration,
    },
    /// The message on its way should have left.
    Overdue {
        /// For how long already.
        since: Duration,
    },
}

/// Why there is nothing to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Nothing was promised.
    BestEffort,
    /// No message has left yet, and none is overdue.
    NothingSent,
    /// The thread that sends has not looked for messages for longer than the delay bound, although
    /// something waits for it: what lies in the queue may be overdue.
    NotLooked {
        /// For how long at least.
        since: Duration,
    },
}

impl Snapshot {
    /// Whether what was promised was kept up to `now`. What a sender lost by its own fault is no
    /// broken promise; nor are messages lost because their channel was closed.
    pub fn verdict(&self, now: Instant) -> Verdict {
        self.verdict_unheard(now, Duration::ZERO)
    }

    /// The same where something has waited for the thread that sends for `unheard` without being looked at
    /// (`SenderThread::unheard`): what the books do not show yet may be overdue then.
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
