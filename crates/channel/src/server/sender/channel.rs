//! The sender's state of one channel, and the decision when a client that waits for room is woken.

use punctual_linux::pass::Doorbell;
use punctual_model::channel::{Framing, Sensitivity};
use punctual_model::{Duration, Instant};
use punctual_policy::egress::{Credits, Promise, Terms};
use punctual_ring::frames::Wake;

use crate::account::{Judge, Recorder};
use crate::rings::Takes;
use crate::server::ringer::Notifier;

/// The client is woken when one slot in so many is free, however soon after the last time.
const PART: u64 = 4;

/// The time after which the client is woken for any room.
const PATIENCE: Duration = Duration::from_millis(1);

/// Everything that a sender needs to carry a channel.
#[derive(Debug)]
pub struct Opening {
    /// Its contract. If its framing is datagrams, no message is longer than a packet.
    pub terms: Terms,
    /// The framing: how its messages become datagrams.
    pub framing: Framing,
    /// The number by which the receiver knows it, in the headers of fragments.
    pub number: u32,
    /// The ring with its messages.
    pub takes: Takes,
    /// Has its client woken.
    pub bell: Notifier,
    /// Rung by its client.
    pub doorbell: Doorbell,
    /// The writer of its account.
    pub recorder: Recorder,
    /// The earliest time at which messages in the ring at the opening were published, whatever the
    /// client reports.
    pub believed_from: Instant,
}

/// An open channel. It is given back when the channel is closed, because destroying it takes time.
#[derive(Debug)]
pub struct Channel {
    pub(super) opening: Opening,
    /// Its number at the egress scheduler.
    pub(super) egress: u32,
    /// The message under way.
    pub(super) head: Option<Head>,
    /// The time at which the messages that are known and not taken were seen.
    pub(super) seen: Instant,
    /// The earliest time at which they may have come.
    pub(super) since: Instant,
    /// The time at which the ring was looked at last.
    pub(super) looked: Instant,
    /// The time at which the ring was last looked at without the messages that are known.
    pub(super) absent: Instant,
    /// Decides when a message counts as arrived in the account.
    pub(super) judge: Judge,
    /// True if the ring was found empty, or left alone, since messages were seen last.
    pub(super) rested: bool,
    /// The number of rings in vain since the last message.
    pub(super) vain: u32,
    /// True if it will be looked at again at some instant.
    pub(super) again: bool,
    /// True if nothing more comes.
    pub(super) gone: bool,
    /// True if nothing of it is carried any more.
    pub(super) ended: bool,
    /// Tells its client about room.
    pub(super) room: Room,
    /// The earliest time at which the message after the last one counts as arrived.
    pub(super) next: Instant,
    /// Its credits until it is open, if it is policed by credits.
    pub(super) credits: Option<Credits>,
}

/// A message under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// Its position in the client's memory, in bytes.
    pub(super) position: usize,
    pub(super) bytes: u32,
    /// Its number, counted from the channel's first.
    pub(super) number: u64,
    /// The time at which it counts as arrived for the link.
    pub(super) logical: Instant,
    /// The time at which it counts as arrived in the account.
    pub(super) arrived: Instant,
    /// True if a part of it is on the link.
    pub(super) begun: bool,
}

impl Channel {
    /// Creates a channel to be opened. Boxed here, because the thread that carries channels
    /// allocates no memory.
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

    /// Limits the channel to as many messages in each control interval as there are credits; the
    /// first interval begins now. Its burst must be at least that of
    /// [`Policing::covering`](punctual_model::channel::Policing::covering).
    #[must_use]
    pub fn with_credits(mut self: Box<Self>, now: Instant, sensitivity: Sensitivity) -> Box<Self> {
        let spacing = self.opening.terms.arrivals.min_inter_arrival();
        self.credits = Some(Credits::new(spacing, sensitivity, now));
        self
    }

    /// Returns when the message after the last one could count as arrived: until then the last one
    /// uses up the contract, or the share of best effort. Returns the beginning of time if nothing
    /// was sent.
    pub fn spent_until(&self) -> Instant {
        self.next
    }

    /// Returns the writer of its account.
    pub fn recorder(&self) -> &Recorder {
        &self.opening.recorder
    }
}

/// Returns the delay bound, if there is one.
pub(super) fn promised(terms: Terms) -> Option<Duration> {
    match terms.promise {
        Promise::RealTime { delay_bound, .. } => Some(delay_bound),
        Promise::BestEffort => None,
    }
}

/// The slots that were given back while the client waits for some.
///
/// Waking the client for each slot would cost more than the message that it puts in: a client that
/// writes faster than its messages leave would sleep and be woken once a message. It waits with a
/// full queue, so another slot is always given back later, and it is woken then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    /// True if the client sleeps and was not woken.
    owed: bool,
    /// The slots given back since the client was found asleep.
    freed: u64,
    woken: Instant,
}

impl Room {
    /// Gives slots back, and wakes the client if that is due.
    pub(super) fn release(&mut self, now: Instant, takes: &mut Takes, bell: &Notifier, count: u64) {
        // The ring reports a sleeping client once.
        if takes.release(count) == Wake::Ring {
            (self.owed, self.freed) = (true, 0);
        }
        self.freed = self.freed.saturating_add(count);
        let part = u64::from(takes.geometry().slots()) / PART;
        if self.owed && (self.freed >= part || now.saturating_since(self.woken) >= PATIENCE) {
            self.wake(now, bell);
        }
    }

    /// Wakes the client if it is still to be woken: no more slots are given back for now.
    pub(super) fn wake(&mut self, now: Instant, bell: &Notifier) {
        if std::mem::take(&mut self.owed) {
            self.woken = now;
            bell.ring();
        }
    }
}
