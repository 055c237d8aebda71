//! One channel, as its sender knows it.

use punctual_linux::pass::Doorbell;
use punctual_model::channel::{Framing, Sensitivity};
use punctual_model::{Duration, Instant};
use punctual_policy::egress::{Credits, Promise, Terms};

use super::room::Room;
use crate::account::{Judge, Recorder};
use crate::rings::Takes;
use crate::server::ringer::Notifier;

/// Everything that a sender needs to carry a channel.
#[derive(Debug)]
pub struct Opening {
    /// Its contract. No message of a channel whose framing is datagrams is longer than a packet.
    pub terms: Terms,
    /// How its messages become datagrams.
    pub framing: Framing,
    /// The number by which the receiver knows it, in the headers of fragments.
    pub number: u32,
    /// Where its messages come from.
    pub takes: Takes,
    /// Has its client woken.
    pub bell: Notifier,
    /// Rung by its client.
    pub doorbell: Doorbell,
    /// Its books.
    pub recorder: Recorder,
    /// What lies in the ring when it is opened was not published before this, whatever its client says.
    pub believed_from: Instant,
}

/// What an [`Opening`] has become. It is given back when the channel is closed, because to take it
/// apart takes time.
#[derive(Debug)]
pub struct Channel {
    pub(super) opening: Opening,
    /// Its number at the outlet.
    pub(super) egress: u32,
    /// The message on its way.
    pub(super) head: Option<Head>,
    /// When the messages that are known and not taken were seen.
    pub(super) seen: Instant,
    /// When they may have come, at the earliest.
    pub(super) since: Instant,
    /// When the ring was looked at last.
    pub(super) looked: Instant,
    /// When it was looked at last and did not have the messages that are known.
    pub(super) absent: Instant,
    /// What counts as a message's arrival in the books.
    pub(super) judge: Judge,
    /// Whether the ring was found empty, or left alone, since messages were seen last.
    pub(super) rested: bool,
    /// Rings that were for nothing, since the last message.
    pub(super) vain: u32,
    /// Whether it is to be looked at again at some instant.
    pub(super) again: bool,
    /// Whether nothing more comes.
    pub(super) gone: bool,
    /// Nothing of it is carried any more.
    pub(super) ended: bool,
    /// What its client is told of room.
    pub(super) room: Room,
    /// When the message after the last one counts as arrived at the earliest.
    pub(super) next: Instant,
    /// Its credits until it is open, if it is policed by such.
    pub(super) credits: Option<Credits>,
}

/// A message on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// Where in the client's memory it lies, in bytes.
    pub(super) position: usize,
    pub(super) bytes: u32,
    /// Counted from the channel's first.
    pub(super) number: u64,
    /// When it counts as arrived for the link.
    pub(super) logical: Instant,
    /// When it counts as arrived for the books.
    pub(super) arrived: Instant,
    /// Whether a part of it is on the link.
    pub(super) begun: bool,
}

impl Channel {
    /// To be opened. Boxed here, because the thread that carries channels asks for no memory.
    pub fn new(opening: Opening) -> Box<Self> {
        let believed_from = opening.believed_from;
        Box::new(Self {
            opening,
            looked: believed_from,
            absent: believed_from,
            judge: Judge::default(),
            egress: 0,
            head: None,
            seen: Instant::ZERO,
            since: Instant::ZERO,
            rested: true,
            vain: 0,
            again: false,
            gone: false,
            ended: false,
            room: Room::default(),
            next: Instant::ZERO,
            credits: None,
        })
    }

    /// The same, and in each control interval no more messages than there are credits; the first begins
    /// now. Its burst must be what [`Policing::covering`](punctual_model::channel::Policing::covering) says,
    /// or longer.
    #[must_use]
    pub fn with_credits(mut self: Box<Self>, now: Instant, sensitivity: Sensitivity) -> Box<Self> {
        let spacing = self.opening.terms.arrivals.min_inter_arrival();
        self.credits = Some(Credits::new(spacing, sensitivity, now));
        self
    }

    /// Until when the last message takes all that its contract, or of best effort its share, allows: when
    /// the next one could count as arrived. The beginning of time where nothing was sent.
    pub fn spent_until(&self) -> Instant {
        self.next
    }

    /// What was promised to it and what became of it.
    pub fn recorder(&self) -> &Recorder {
        &self.opening.recorder
    }
}

/// The delay bound, if there is one.
pub(super) fn promised(terms: Terms) -> Option<Duration> {
    match terms.promise {
        Promise::RealTime { delay_bound, .. } => Some(delay_bound),
        Promise::BestEffort => None,
    }
}
