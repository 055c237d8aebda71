//! The way out of a communication server: which block leaves next, and when.
//!
//! In the study of real-time channels, a host's processor makes packets while its link sends others. A
//! server on a stock kernel does both in one go: it makes a packet by handing it to the kernel, at the
//! instant at which the link is free for it. So here one thread and one link take turns, link
//! scheduling is a function call (O1 of real-time channels, §3.1.2), and only the first message of each
//! channel is known: what follows it waits in the channel's own queue, where it costs nobody anything.
//!
//! The link is *reckoned*, not asked: after a block of so many bytes it counts as busy for as long as
//! a link of the stated rate needs for them. Stated a little slower than the wire, queues form here,
//! where urgency counts, and never in the driver, where it does not.
//!
//! # The pace
//! A link that is faster than the server's processor would let the thread run without a pause for as
//! long as messages wait, and whoever stands below it would not. So a block of n packets is due no sooner
//! than n times the [pace](EgressScheduler::with_pace) after the one before it was due, and none is given out
//! before it is due. One that is given out late counts as due then, less one pace: a thread that wakes up a
//! little late after each rest loses nothing by it. With C of processor time for a packet, and a pace of
//! p ≥ C, blocks of up to P packets take at most
//!
//! ```text
//! (C/p)·t + 2·P·C·(1 − C/p) + C
//! ```
//!
//! of any window of length t. Proof: let w₁ be what the window has of the first block in it, and w₂ of
//! the last. The blocks between were given out after the first was done. From when the first of them was
//! due to when the last block was, their packets take p each. It was due at most p before it was given out, and
//! the last block was given out when it was due or later: so they take p each of `t − w₁ − w₂ + p`, and C each of
//! the processor. Together that is `w₁ + w₂ + (C/p)·(t − w₁ − w₂ + p)`, and neither w is above P·C. It holds
//! however long others keep the thread from running.
//!
//! # What a driver does
//! ```text
//! open a channel ─▶ offer its first message ─▶ next ─▶ Send: hand over, then sent ─▶ next …
//!                        ▲                      │ At(t): sleep until t       │
//!                        └──────────────────────┴──── Complete: offer the next message
//! ```
//! A message that comes for a channel without one is [offered](EgressScheduler::offer) at once; one that comes
//! for a channel that has one, when that is complete.
//!
//! # What is promised
//! Messages of channels leave within the bounds of `analysis::channel::egress`, for which thread and link are one
//! resource: a block takes the processor's time and then the link's, and is not interrupted.
//! `tests/tests/virtual_time/egress.rs` holds the one against the other.

mod credits;
mod message;
mod regulator;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;

use punctual_model::channel::{LinearBounded, Link, Packetisation, TooEarly};
use punctual_model::{Duration, Instant, Rank};

use crate::queues::{Class, ServiceOrder, ThreeQueues};
pub use credits::Credits;
use message::Message;
pub use message::{Block, Sent};
use regulator::Regulator;

/// What is promised to a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Each message by its delay bound after its logical arrival.
    RealTime {
        /// As admission ranked it.
        rank: Rank,
        /// From logical arrival to the end of the transmission.
        delay_bound: Duration,
    },
    /// Nothing: it goes when nothing else does.
    BestEffort,
}

/// A channel as the outlet knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Sizes, spacing and burst. Of best effort: its share.
    pub arrivals: LinearBounded,
    /// What is promised to it.
    pub promise: Promise,
    /// What becomes of messages beyond the burst.
    pub too_early: TooEarly,
}

/// What became of a message that was offered.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It is on its way.
    Taken {
        /// When it counts as arrived; may lie in the future.
        logical: Instant,
        /// Whether its sender kept to its contract.
        conforming: bool,
    },
    /// It came too early and its channel loses such messages. It left no trace.
    TooEarly {
        /// When it would not have been.
        conforms_at: Instant,
    },
    /// It is smaller or larger than declared. It left no trace.
    WrongSize,
}

/// What to do next.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// This block leaves now; [`EgressScheduler::sent`] is told when it was handed over.
    Send(Block),
    /// Nothing before then, unless something is offered.
    At(Instant),
    /// Nothing, unless something is offered.
    Idle,
}

/// There are as many channels as there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// The state machine. Channels are numbered from 0; the number of a closed one is used again.
/// [`next`](Self::next), [`offer`](Self::offer) and [`sent`](Self::sent) cost O(log n) and allocate
/// nothing.
#[derive(Clone, Debug)]
pub struct EgressScheduler {
    link: Link,
    cut: Packetisation,
    /// What the longest block takes of the link.
    longest: Duration,
    order: ServiceOrder,
    channels: Box<[Option<Channel>]>,
    /// Each channel that has a message which is not being sent.
    waiting: ThreeQueues<u32>,
    /// When the link is free.
    free_at: Instant,
    /// The least time from one packet to the next, and when the next is due by that.
    pace: Duration,
    rests_until: Instant,
    /// Handed out by [`next`](Self::next) and not yet sent.
    leaving: Option<u32>,
    /// No number below it is free.
    first_free: usize,
}

#[derive(Clone, Debug)]
struct Channel {
    regulator: Regulator,
    promise: Promise,
    message: Option<Message>,
    /// Closed while its message was handed out.
    closed: bool,
}

impl EgressScheduler {
    /// An idle link, with room for so many channels. Messages are cut into packets of
    /// `cut.packet_bytes`, and so many of them as `cut.packets_per_block` leave as one block.
    pub fn new(link: Link, cut: Packetisation, order: ServiceOrder, room: u32) -> Self {
        let room = room as usize;
        let packet = link.transmission_time(cut.packet_bytes());
        Self {
            link,
            cut,
            longest: packet.checked_mul(cut.packets_per_block().into()).unwrap_or(Duration::MAX),
            order,
            channels: (0..room).map(|_| None).collect(),
            waiting: ThreeQueues::new(room, 0),
            free_at: Instant::ZERO,
            pace: Duration::ZERO,
            rests_until: Instant::ZERO,
            leaving: None,
            first_free: 0,
        }
    }

    /// Begins each packet no sooner than `pace` after the one before was due, however fast the link is. A block
    /// counts as that many packets. What is late by up to `pace` is made up for.
    #[must_use]
    pub fn with_pace(self, pace: Duration) -> Self {
        Self { pace, ..self }
    }

    /// Opens a channel and gives its number.
    pub fn open(&mut self, terms: Terms) -> Result<u32, NoRoom> {
        let free = self.channels[self.first_free..].iter().position(Option::is_none);
        let at = self.first_free + free.ok_or(NoRoom)?;
        self.first_free = at + 1;
        self.channels[at] = Some(Channel {
            regulator: Regulator::new(terms),
            promise: terms.promise,
            message: None,
            closed: false,
        });
        Ok(at as u32)
    }

    /// Polices an open channel by `credits` too: what they do not let pass is too early. Its burst must be what
    /// [`Policing::covering`](punctual_model::channel::Policing::covering) says, or longer. False if there is no such
    /// channel.
    #[must_use]
    pub fn police_by(&mut self, channel: u32, credits: Credits) -> bool {
        let Some(channel) = self.open_mut(channel) else { return false };
        channel.regulator.credits = Some(credits);
        true
    }

    /// Other terms for an open channel, from its next message on. The spacing from the last one counts
    /// on. False if there is no such channel.
    #[must_use]
    pub fn change(&mut self, channel: u32, terms: Terms) -> bool {
        let Some(channel) = self.open_mut(channel) else { return false };
        channel.regulator.change(terms);
        channel.promise = terms.promise;
        true
    }

    /// Closes a channel; what is left of its message is not sent. False if there is none. O(n) if it
    /// has one, for n channels.
    #[must_use]
    pub fn close(&mut self, channel: u32) -> bool {
        let is_leaving = self.leaving == Some(channel);
        let Some(state) = self.open_mut(channel) else { return false };
        if is_leaving {
            // The number is free when that was reported.
            (state.closed, state.message) = (true, None);
            return true;
        }
        if state.message.is_some() {
            let _was_waiting = self.waiting.remove(|waiting| *waiting == channel);
        }
        self.free(channel);
        true
    }

    /// A message of so many bytes came for `channel`, or waited until the one before was complete.
    /// `arrived` is when it came as far as anybody trusted has seen, at most `now`.
    ///
    /// # Panics
    /// If there is no such channel, or its last message is not complete.
    pub fn offer(&mut self, now: Instant, channel: u32, arrived: Instant, bytes: u32) -> Offered {
        self.offer_since(now, channel, arrived, arrived, bytes)
    }

    /// The same where it may have come at any time from `since` on, and nobody looked because the
    /// message before it was on its way. It counts as arrived as early as it can have, so that a sender
    /// who kept to its contract does not fall behind; whether it kept to it is judged by `arrived`.
    ///
    /// Nobody else is delayed by that: until the message before was complete this one could not leave
    /// whenever it came, and from then on it is in the queue as if it had come then.
    ///
    /// # Panics
    /// As [`Self::offer`].
    pub fn offer_since(
        &mut self,
        now: Instant,
        channel: u32,
        since: Instant,
        arrived: Instant,
        bytes: u32,
    ) -> Offered {
        let state = self.open_mut(channel).expect("an open channel");
        assert!(state.message.is_none(), "one message of a channel at a time");
        let arrived = arrived.min(now);
        let offered = state.regulator.offer(since.min(arrived), arrived, bytes);
        if let Offered::Taken { logical, .. } = offered {
            state.message = Some(Message::new(bytes, logical));
            self.wait(now, channel, Instant::ZERO);
        }
        offered
    }

    /// What to do at `now`; `now` never goes back.
    ///
    /// # Panics
    /// If the last block was not reported as [`sent`](Self::sent).
    pub fn next(&mut self, now: Instant) -> Next {
        assert!(self.leaving.is_none(), "the last block has not been sent");
        let free_at = self.free_at.max(self.rests_until);
        loop {
            if !self.waiting.is_waiting(now.max(free_at)) {
                return self.waiting.next_current().map_or(Next::Idle, Next::At);
            }
            if now < free_at {
                return Next::At(free_at);
            }
            let Some(channel) = self.waiting.pop(now) else {
                return self.waiting.next_current().map_or(Next::Idle, Next::At);
            };
            // Of a channel that is closed nothing waits.
            if let Some(state) = &self.channels[channel as usize]
                && let Some(message) = &state.message
            {
                let deadline = match state.promise {
                    Promise::RealTime { delay_bound, .. } => {
                        Some(message.logical.saturating_add(delay_bound))
                    }
                    Promise::BestEffort => None,
                };
                let block = message.block(channel, self.cut, deadline);
                self.leaving = Some(channel);
                // What rested has left the link idle.
                self.free_at = free_at;
                self.rest(now, self.cut.packets_of(block.bytes));
                return Next::Send(block);
            }
        }
    }

    /// So many packets are given out: the next one is due by the pace, as if they had been when they were due, or one
    /// pace ago.
    fn rest(&mut self, now: Instant, packets: u32) {
        if !self.pace.is_zero() {
            let late_at_most = now.as_nanos().saturating_sub(self.pace.as_nanos());
            let due = self.rests_until.max(Instant::from_nanos(late_at_most));
            let rest = self.pace.checked_mul(packets.into()).unwrap_or(Duration::MAX);
            self.rests_until = due.saturating_add(rest);
        }
    }

    /// The block that [`next`](Self::next) gave was handed over at `now`, which is when its first
    /// packet may have begun to leave.
    ///
    /// # Panics
    /// If there was none.
    pub fn sent(&mut self, now: Instant) -> Sent {
        self.sent_part(now, u32::MAX)
    }

    /// The same if only its first `packets` were taken; the others are its channel's next block. At
    /// least one: for none there is [`put_back`](Self::put_back).
    ///
    /// # Panics
    /// If there was no block.
    pub fn sent_part(&mut self, now: Instant, packets: u32) -> Sent {
        let channel = self.leaving.take().expect("a block was handed out");
        let state = self.channels[channel as usize].as_mut().expect("it had a block");
        let Some(message) = &mut state.message else {
            // Closed meanwhile.
            self.free(channel);
            self.free_at = self.free_at.max(now);
            return Sent::Closed;
        };
        let block = message.block(channel, self.cut, None);
        let most = packets.max(1).saturating_mul(self.cut.packet_bytes());
        let block = Block { bytes: block.bytes.min(most), ..block };
        let busy = block.time_on(self.link, self.cut);
        // Due as soon as both it and the link were there. What is handed over late is made up for, by the time of the
        // longest block and a pace at most, which then waits in the driver: else a busy link would lose each delay.
        let due = self.free_at.max(message.logical);
        let made_up = self.longest.saturating_add(self.pace);
        let late_at_most = now.as_nanos().saturating_sub(made_up.as_nanos());
        self.free_at = due.max(Instant::from_nanos(late_at_most)).saturating_add(busy);
        if message.advance(&block) {
            state.message = None;
            return Sent::Complete { leaves_by: self.free_at };
        }
        self.wait(now, channel, Instant::ZERO);
        Sent::MoreOfIt
    }

    /// Nothing of the block that [`next`](Self::next) gave was taken: it comes again, not before
    /// `until`. It is as urgent as before then, and others may leave meanwhile.
    ///
    /// # Panics
    /// If there was no block.
    pub fn put_back(&mut self, now: Instant, until: Instant) {
        let channel = self.leaving.take().expect("a block was handed out");
        if self.channels[channel as usize].as_ref().is_some_and(|state| state.closed) {
            return self.free(channel);
        }
        self.wait(now, channel, until);
    }

    /// The message of the block that [`next`](Self::next) gave cannot be sent: what is left of it is
    /// given up, and the next message of its channel may be offered. It took no time on the link.
    ///
    /// # Panics
    /// If there was no block.
    pub fn give_up(&mut self) {
        let channel = self.leaving.take().expect("a block was handed out");
        match &mut self.channels[channel as usize] {
            Some(state) if !state.closed => state.message = None,
            _ => self.free(channel),
        }
    }

    /// When the next block may begin by the [pace](Self::with_pace), whatever the link does.
    pub fn rests_until(&self) -> Instant {
        self.rests_until
    }

    /// When the link is free.
    pub fn free_at(&self) -> Instant {
        self.free_at
    }

    fn open_mut(&mut self, channel: u32) -> Option<&mut Channel> {
        self.channels.get_mut(channel as usize)?.as_mut().filter(|channel| !channel.closed)
    }

    fn free(&mut self, channel: u32) {
        self.channels[channel as usize] = None;
        self.first_free = self.first_free.min(channel as usize);
    }

    /// Its message goes into the queue where it belongs, and does not leave before `until`.
    fn wait(&mut self, now: Instant, channel: u32, until: Instant) {
        let Some(Channel { promise, message: Some(message), .. }) =
            &self.channels[channel as usize]
        else {
            return;
        };
        // Best effort waits for its share as the others for their contract, and then behind them.
        let (rank, delay_bound) = match *promise {
            Promise::RealTime { rank, delay_bound } => (rank, delay_bound),
            Promise::BestEffort => (Rank(u32::MAX), Duration::MAX),
        };
        let urgency = self.order.urgency(rank, delay_bound, message.logical);
        let class = Class::RealTime { logical: message.logical.max(until), urgency };
        // One place for each channel, and no channel is in twice.
        if self.waiting.push(now, class, channel).is_err() {
            unreachable!("a channel has a place of its own");
        }
    }
}
