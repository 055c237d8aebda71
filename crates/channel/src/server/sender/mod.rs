//! Carries the messages of many channels from their rings to a transport, at the instants and in
//! the order that the egress scheduler decides.
//!
//! ```text
//! bell ─▶ look ─▶ ring: take ─▶ egress: offer ─▶ next ─▶ transport: hand over ─▶ ring: release ─▶ bell
//!                   ▲                                                              │
//!                   └────────────────────── the next message ◀─────────────────────┘
//! ```
//! It takes the time from its caller, allocates nothing once a channel is open, and makes only the
//! system calls of its transport: [another thread](crate::server::ringer) wakes clients. [`thread`]
//! drives it on Linux.
//!
//! # Power of a hostile client
//! It can cause a look at its ring for each ring of its bell. It can cause the loss of its ring's
//! messages each `I_min`, or of `feed::LOST_AT_A_GO` messages each `feed::PAUSE` if they have a
//! wrong size. A bell that rings [`MOST_VAIN`] times without a message ends its channel, as does an
//! inconsistent ring.

mod channel;
mod feed;
mod hand_over;
#[cfg(test)]
mod tests;
pub mod thread;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

use punctual_model::Instant;
use punctual_model::channel::{Framing, Packetisation};
use punctual_policy::egress::{EgressScheduler, Next, NoRoom, Terms};
use punctual_ring::frames::Corrupt;

use crate::account::Loss;
use crate::server::events::Events;
use crate::transport::Transport;
use channel::promised;

pub use channel::{Channel, Opening};

/// The number of vain rings between two messages after which a channel is ended. An honest client
/// rings in vain at most twice: its server may have seen the message before it saw the ring.
pub const MOST_VAIN: u32 = 256;

/// The reason why a channel ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its client is gone, and its published messages are sent.
    ClientGone,
    /// Its ring is inconsistent.
    Corrupt(Corrupt),
    /// Its bell rings in vain.
    RingsInVain,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientGone => f.write_str("its client is gone"),
            Self::Corrupt(corrupt) => corrupt.fmt(f),
            Self::RingsInVain => {
                write!(f, "its client rang {MOST_VAIN} times for nothing: ring only when told to")
            }
        }
    }
}

/// The next step.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Something was done: look at the bells and call again.
    Again,
    /// There is nothing to do before then, unless a bell rings.
    At(Instant),
    /// There is nothing to do, unless a bell rings.
    Idle,
}

/// Carries channels, under numbers from 0 to below `room` that the caller chooses.
#[derive(Debug)]
pub struct Sender<T> {
    egress: EgressScheduler,
    cut: Packetisation,
    channels: Box<[Option<Box<Channel>>]>,
    /// The channels' numbers, by those of the egress scheduler.
    of_egress: Box<[u32]>,
    /// Each channel at most once, so that it never grows.
    again: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Channels that ended by themselves and were not reported yet; never grows either.
    ended: Vec<(u32, Ended)>,
    transport: T,
    /// The queue for events of each message, if there is one.
    events: Option<Events>,
}

impl<T: Transport<To = u32>> Sender<T> {
    /// Creates a sender without channels. `egress` must have room for as many channels, and use the
    /// packetisation `cut`.
    pub fn new(egress: EgressScheduler, cut: Packetisation, room: u32, transport: T) -> Self {
        let room = room as usize;
        Self {
            egress,
            cut,
            channels: (0..room).map(|_| None).collect(),
            of_egress: vec![0; room].into(),
            again: BinaryHeap::with_capacity(room),
            ended: Vec::with_capacity(room),
            transport,
            events: None,
        }
    }

    /// Records each message that is carried from here on: as a job of a task whose number is the
    /// channel's, released at its logical arrival. A message that its contract does not admit is
    /// not recorded.
    pub fn tell_events(&mut self, events: Events) {
        self.events = Some(events);
    }

    /// Returns the transport, so that the caller can attach a channel's socket.
    pub fn transport_mut(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Opens channel `key`, and takes the messages that its ring has already.
    ///
    /// # Errors
    /// Returns an error if it is open, or there is no such number.
    ///
    /// # Panics
    /// Panics if messages that are to be datagrams could be longer than a packet.
    pub fn open(
        &mut self,
        now: Instant,
        key: u32,
        mut channel: Box<Channel>,
    ) -> Result<(), NoRoom> {
        let terms = channel.opening.terms;
        let longest = terms.arrivals.max_message();
        let whole =
            channel.opening.framing == Framing::Fragments || longest <= self.cut.packet_bytes();
        assert!(whole, "{longest} bytes are no datagram of {}", self.cut.packet_bytes());
        let place = self.channels.get_mut(key as usize).ok_or(NoRoom)?;
        if place.is_some() {
            return Err(NoRoom);
        }
        channel.egress = self.egress.open(terms)?;
        if let Some(credits) = channel.credits.take() {
            let _is_open = self.egress.police_by(channel.egress, credits);
        }
        // Messages found in the ring when it was attached are seen now.
        (channel.since, channel.seen) = (now, now);
        self.of_egress[channel.egress as usize] = key;
        *place = Some(channel);
        self.feed(now, key);
        Ok(())
    }

    /// Changes the terms from the next message on. Returns false if there is no such channel.
    #[must_use]
    pub fn change(&mut self, key: u32, terms: Terms) -> bool {
        let Some(channel) = self.channels.get_mut(key as usize).and_then(Option::as_mut) else {
            return false;
        };
        channel.opening.terms = terms;
        channel.opening.recorder.change(promised(terms));
        !channel.ended && self.egress.change(channel.egress, terms)
    }

    /// Closes a channel: the rest of its message is lost. Returns `None` if there is no such
    /// channel.
    pub fn close(&mut self, key: u32) -> Option<Box<Channel>> {
        let mut channel = self.channels.get_mut(key as usize)?.take()?;
        if !channel.ended {
            let _was_open = self.egress.close(channel.egress);
        }
        // Another channel may have its number by the time that the end is reported.
        self.ended.retain(|(other, _)| *other != key);
        if channel.again {
            self.again.retain(|Reverse((_, other))| *other != key);
        }
        if channel.head.take().is_some() {
            channel.opening.recorder.lost(Loss::Closed);
        }
        Some(channel)
    }

    /// Returns a channel that has ended by itself. The caller must still close it.
    pub fn ended(&mut self) -> Option<(u32, Ended)> {
        self.ended.pop()
    }

    /// Announces that nothing more comes for a channel: it ends when the messages in its ring are
    /// sent ([`Ended::ClientGone`]).
    pub fn finish(&mut self, now: Instant, key: u32) {
        let Some(channel) = self.channels.get_mut(key as usize).and_then(Option::as_mut) else {
            return;
        };
        channel.gone = true;
        // A message under way, or a pending look, comes to its end by itself.
        if !channel.ended && channel.head.is_none() && !channel.again {
            channel.opening.takes.rise();
            self.feed(now, key);
        }
    }

    /// Looks at a channel whose bell rang.
    pub fn look(&mut self, now: Instant, key: u32) {
        self.look_since(now, key, now);
    }

    /// Looks at a channel whose bell may have rung at any time from `since` on without being
    /// noticed: no block was handed over from then until `now`.
    pub fn look_since(&mut self, now: Instant, key: u32, since: Instant) {
        let Some(channel) = self.channels.get_mut(key as usize).and_then(Option::as_mut) else {
            return;
        };
        if channel.ended {
            return;
        }
        channel.vain += 1;
        if channel.vain > MOST_VAIN {
            return self.end(key, Ended::RingsInVain);
        }
        if channel.head.is_none() && !channel.again {
            channel.opening.takes.rise();
            self.feed_since(now, key, since);
        }
    }

    /// Hands over at most one block. Reads `clock` when that was done.
    pub fn turn(&mut self, now: Instant, clock: impl Fn() -> Instant) -> Turn {
        // One a turn, so that a channel that loses messages delays others by no more than that.
        if let Some(Reverse((at, key))) = self.again.peek().copied()
            && at <= now
        {
            self.again.pop();
            if let Some(channel) = self.channels[key as usize].as_mut() {
                channel.again = false;
                self.feed(now, key);
            }
        }
        let again = self.again.peek().map(|Reverse((at, _))| *at);
        match (self.egress.next(now), again) {
            (Next::Send(block), _) => {
                self.hand_over(now, block, clock);
                Turn::Again
            }
            (Next::At(at), Some(again)) => Turn::At(at.min(again)),
            (Next::At(at), None) | (Next::Idle, Some(at)) => Turn::At(at),
            (Next::Idle, None) => Turn::Idle,
        }
    }
}
