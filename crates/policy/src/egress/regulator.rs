//! The regulator of a channel: it checks sizes and assigns logical arrivals. Behind it a message is
//! transmitted block by block.

use punctual_model::channel::{LinearBounded, Link, Packetisation, Sensitivity, TooEarly};
use punctual_model::{Duration, Instant, Rank};

use crate::police::{Breach, IntervalCredits, UncertainArrivals, UncertainVerdict};

/// The promise to a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Each message leaves within its delay bound after its logical arrival.
    RealTime {
        /// The rank that admission assigned.
        rank: Rank,
        /// The time from logical arrival to the end of the transmission.
        delay_bound: Duration,
    },
    /// None: messages leave when no other channel has one to send.
    BestEffort,
}

/// A channel as the egress scheduler knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The sizes, spacing and burst. For best effort, its share.
    pub arrivals: LinearBounded,
    /// The promise to it.
    pub promise: Promise,
    /// The handling of messages beyond the burst.
    pub too_early: TooEarly,
}

/// The result of offering a message.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// The message was accepted.
    Taken {
        /// The time at which it counts as arrived; it may lie in the future.
        logical: Instant,
        /// True if its sender kept to its contract.
        conforming: bool,
    },
    /// The message came too early, and its channel discards such messages. The state is unchanged.
    TooEarly {
        /// The time at which it would have conformed.
        conforms_at: Instant,
    },
    /// The message is smaller or larger than declared. The state is unchanged.
    WrongSize,
}

/// The logical arrivals of one channel (real-time channels, §2.1): at least `I_min` apart.
#[derive(Clone, Debug)]
pub(super) struct Regulator {
    terms: Terms,
    /// `(B_max − 1)·I_min`: how early a message of a conforming sender may be.
    most_early: Duration,
    /// The earliest logical arrival of the next message.
    next: Instant,
    /// The credits, if the channel is policed by them.
    pub(super) credits: Option<Credits>,
}

impl Regulator {
    pub(super) fn new(terms: Terms) -> Self {
        Self { terms, most_early: most_early(terms), next: Instant::ZERO, credits: None }
    }

    pub(super) fn change(&mut self, terms: Terms) {
        (self.terms, self.most_early) = (terms, most_early(terms));
        if let Some(credits) = &mut self.credits {
            credits.change(terms.arrivals.min_inter_arrival());
        }
    }

    pub(super) fn offer(&mut self, since: Instant, arrived: Instant, bytes: u32) -> Offered {
        let Terms { arrivals, too_early, .. } = self.terms;
        if bytes < arrivals.min_message() || bytes > arrivals.max_message() {
            return Offered::WrongSize;
        }
        let credited = match &mut self.credits {
            Some(credits) => credits.judge(since, arrived, too_early),
            None => Credited::Conforming,
        };
        if let Credited::TooEarly { conforms_at } = credited {
            return Offered::TooEarly { conforms_at };
        }
        let logical = since.max(self.next);
        let early = logical.saturating_since(arrived);
        let conforming = early <= self.most_early;
        if !conforming && too_early == TooEarly::Discard {
            let by = early.saturating_sub(self.most_early);
            return Offered::TooEarly { conforms_at: arrived.saturating_add(by) };
        }
        self.next = logical.saturating_add(arrivals.min_inter_arrival());
        let conforming = conforming && credited == Credited::Conforming;
        Offered::Taken { logical, conforming }
    }
}

/// Returns `(B_max − 1)·I_min`; if that does not fit, no message is ever too early.
fn most_early(terms: Terms) -> Duration {
    terms.arrivals.jitter().unwrap_or(Duration::MAX)
}

/// The credits of one channel, counted in messages.
#[derive(Clone, Debug)]
pub struct Credits {
    sensitivity: Sensitivity,
    policer: UncertainArrivals<IntervalCredits>,
}

/// The verdict of the credits on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Credited {
    /// The message had a credit.
    Conforming,
    /// The message is charged to a later interval.
    Waits,
    /// The message had no credit and is lost.
    TooEarly {
        /// The time at which it would have one.
        conforms_at: Instant,
    },
}

impl Credits {
    /// Makes credits with the first interval beginning at `origin`.
    pub fn new(spacing: Duration, sensitivity: Sensitivity, origin: Instant) -> Self {
        let credits = IntervalCredits::of_messages(spacing, sensitivity, origin);
        Self { sensitivity, policer: UncertainArrivals::new(credits) }
    }

    /// Changes the spacing. The first interval begins with the last charged message, so a change
    /// gains the sender at most that interval. The regulator holds back messages that this lets
    /// pass too early.
    fn change(&mut self, spacing: Duration) {
        *self = Self::new(spacing, self.sensitivity, self.policer.last());
    }

    /// Judges a message that came between `since` and `seen`.
    fn judge(&mut self, since: Instant, seen: Instant, too_early: TooEarly) -> Credited {
        // Each message is charged as a PDU of one byte, because credits count messages.
        match self.policer.judge(since, seen, 1, too_early) {
            UncertainVerdict::Conforming => Credited::Conforming,
            UncertainVerdict::Waits { .. } => Credited::Waits,
            UncertainVerdict::Lost(Breach::TooEarly { conforms_at }) => {
                Credited::TooEarly { conforms_at }
            }
            // Cannot happen: no PDU has more than one byte.
            UncertainVerdict::Lost(Breach::TooLarge { .. }) => {
                Credited::TooEarly { conforms_at: Instant::MAX }
            }
        }
    }
}

/// The first message of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    bytes: u32,
    sent: u32,
    pub(super) logical: Instant,
}

/// Packets of one message that leave together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The channel's number.
    pub channel: u32,
    /// The offset of the block in its message, in bytes.
    pub offset: u32,
    /// The length of the block in bytes. All packets but the last have the packet size.
    pub bytes: u32,
    /// True if the message ends with this block.
    pub is_last: bool,
    /// The time at which its message counts as arrived.
    pub logical: Instant,
    /// The time by which its message must have left; `None` for best effort.
    pub absolute_deadline: Option<Instant>,
}

/// The state of the channel after one of its blocks was sent.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The message has more blocks.
    MorePackets,
    /// The message is complete: the next one may be offered.
    Complete {
        /// The time at which the last packet leaves, as computed for the link.
        leaves_by: Instant,
    },
    /// The channel was closed in the meantime.
    Closed,
}

impl Message {
    pub(super) fn new(bytes: u32, logical: Instant) -> Self {
        Self { bytes, sent: 0, logical }
    }

    /// Returns the next block.
    pub(super) fn block(
        &self,
        channel: u32,
        cut: Packetisation,
        absolute_deadline: Option<Instant>,
    ) -> Block {
        let left = self.bytes - self.sent;
        let most = cut.packet_bytes().saturating_mul(cut.packets_per_block());
        Block {
            channel,
            offset: self.sent,
            bytes: left.min(most),
            is_last: left <= most,
            logical: self.logical,
            absolute_deadline,
        }
    }

    /// Records that the block was sent. Returns true if the message is complete.
    pub(super) fn advance(&mut self, block: &Block) -> bool {
        self.sent += block.bytes;
        self.sent == self.bytes
    }
}

impl Block {
    /// Returns the time that the block occupies the link. Each of its packets has its own start-up.
    pub fn time_on(&self, link: Link, cut: Packetisation) -> Duration {
        let (full, last) = (cut.packets_of(self.bytes) - 1, cut.last_packet_of(self.bytes));
        let of_full = link.transmission_time(cut.packet_bytes());
        let full = of_full.checked_mul(u64::from(full)).unwrap_or(Duration::MAX);
        full.saturating_add(link.transmission_time(last))
    }
}
