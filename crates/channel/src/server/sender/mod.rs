//! Carries the messages of many channels from their rings to a transport, at the instants and in the
//! order that the outlet says.
//!
//! ```text
//! bell ─▶ look ─▶ ring: take ─▶ outlet: offer ─▶ next ─▶ transport: hand over ─▶ ring: release ─▶ bell
//!                   ▲                                                              │
//!                   └────────────────────── the next message ◀─────────────────────┘
//! ```
//! It takes the time from its caller, allocates nothing once a channel is open, and makes the system
//! calls of its transport alone: who wakes clients is [another thread](crate::server::ringer). [`thread`] turns it on Linux.
//!
//! # What a hostile client can make it do
//! A look at its ring for each ring of its bell, and to lose what its ring holds each `I_min`, or
//! [`feed::LOST_AT_A_GO`] messages each [`feed::PAUSE`] where they have a wrong size. A bell that rings [`MOST_VAIN`] times without a message for it ends its channel, as does a ring that
//! makes no sense.

mod channel;
mod feed;
mod hand_over;
mod room;
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

/// Rings for nothing between two messages, after which a channel is ended. An honest client rings at
/// most twice: its server may have seen the message before it heard the bell.
pub const MOST_VAIN: u32 = 256;

/// Why a channel ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its client is gone, and what it had published is sent.
    ClientGone,
    /// Its ring makes no sense.
    Corrupt(Corrupt),
    /// Its bell rings for nothing.
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

/// What to do next.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Something was done: look at the bells and turn again.
    Again,
    /// Nothing before then, unless a bell rings.
    At(Instant),
    /// Nothing, unless a bell rings.
    Idle,
}

/// Channels by the numbers that whoever opens them chooses, from 0 to below `room`.
#[derive(Debug)]
pub struct Sender<T> {
    egress: EgressScheduler,
    cut: Packetisation,
    channels: Box<[Option<Box<Channel>>]>,
    /// By the outlet's number.
    of_egress: Box<[u32]>,
    /// Each channel at most once, so that it never grows.
    again: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Those that ended by themselves and were not told of yet; never grows either.
    ended: Vec<(u32, Ended)>,
    transport: T,
    /// Who wants to know of each message.
    events: Option<Events>,
}

impl<T: Transport<To = u32>> Sender<T> {
    /// Nothing is open. `egress` has room for as many channels, and cuts as `cut` says.
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

    /// Tells of each message that is carried from here on: a job of a task whose number is the channel's,
    /// released at its logical arrival. What no contract lets through is none.
    pub fn tell_events(&mut self, events: Events) {
        self.events = Some(events);
    }

    /// The transport, to give it what a channel needs there.
    pub fn transport_mut(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Opens channel `key`, and takes what its ring has already.
    ///
    /// # Errors
    /// If it is open, or there is no such number.
    ///
    /// # Panics
    /// If messages that are to be datagrams could be longer than a packet.
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
        // What was found in the ring when it was attached is seen now.
        (channel.since, channel.seen) = (now, now);
        self.of_egress[channel.egress as usize] = key;
        *place = Some(channel);
        self.feed(now, key);
        Ok(())
    }

    /// Other terms, from the next message on. False if there is no such channel.
    #[must_use]
    pub fn change(&mut self, key: u32, terms: Terms) -> bool {
        let Some(channel) = self.channels.get_mut(key as usize).and_then(Option::as_mut) else {
            return false;
        };
        channel.opening.terms = terms;
        channel.opening.recorder.change(promised(terms));
        !channel.ended && self.egress.change(channel.egress, terms)
    }

    /// Closes a channel: what is left of its message is lost. Nothing if there is none.
    pub fn close(&mut self, key: u32) -> Option<Box<Channel>> {
        let mut channel = self.channels.get_mut(key as usize)?.take()?;
        if !channel.ended {
            let _was_open = self.egress.close(channel.egress);
        }
        // Its number may be another's by the time that it is told.
        self.ended.retain(|(other, _)| *other != key);
        if channel.again {
            self.again.retain(|Reverse((_, other))| *other != key);
        }
        if channel.head.take().is_some() {
            channel.opening.recorder.lost(Loss::Closed);
        }
        Some(channel)
    }

    /// A channel that has ended by itself. It is still to be closed.
    pub fn ended(&mut self) -> Option<(u32, Ended)> {
        self.ended.pop()
    }

    /// Nothing more will come for a channel: when what its ring has is sent, it ends
    /// ([`Ended::ClientGone`]).
    pub fn finish(&mut self, now: Instant, key: u32) {
        let Some(channel) = self.channels.get_mut(key as usize).and_then(Option::as_mut) else {
            return;
        };
        channel.gone = true;
        // What it has on its way, or waits for, comes to its end by itself.
        if !channel.ended && channel.head.is_none() && !channel.again {
            channel.opening.takes.rise();
            self.feed(now, key);
        }
    }

    /// The bell of a channel rang.
    pub fn look(&mut self, now: Instant, key: u32) {
        self.look_since(now, key, now);
    }

    /// The same where it may have rung at any time from `since` on and nobody listened: no block was
    /// handed over from then until `now`.
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

    /// Hands over at most one block. `clock` is asked when that was done.
    pub fn turn(&mut self, now: Instant, clock: impl Fn() -> Instant) -> Turn {
        // One a turn, so that whoever loses messages delays others by no more than that.
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
