//! The egress scheduler of a communication server: it decides which block leaves next, and when.
//!
//! In the study of real-time channels, a host's processor makes packets while its link sends
//! others. A server on a stock kernel does both at once: it makes a packet by handing it to the
//! kernel at the instant at which the link is free for it. So here one thread and one link
//! alternate, link scheduling is a function call (O1 of real-time channels, §3.1.2), and only the
//! first message of each channel is known to the scheduler. Later messages wait in the channel's
//! own queue, where they cost the other channels nothing.
//!
//! The link's state is *computed*, not queried: after a block the link counts as busy for the time
//! that a link of the stated rate needs for its bytes. If the stated rate is a little below the
//! wire's, queues form here, where they are ordered by urgency, and never in the driver, where they
//! are not.
//!
//! # The pace
//! If the link is faster than the server's processor, the thread would run without a pause while
//! messages wait, and threads of lower priority would not run. So after a block of n packets the
//! next is due no sooner than n times the [pace](EgressScheduler::with_pace) after that block was
//! due, and no block is given out before it is due. A block that is given out late counts as due
//! then, less one pace at most: a thread that wakes up a little late after each pause loses nothing
//! by it. With C of processor time for a packet, and a pace of p ≥ C, blocks of up to P packets
//! take at most
//!
//! ```text
//! (C/p)·t + 2·P·C·(1 − C/p) + C
//! ```
//!
//! of any window of length t. Proof: let w₁ be the part of the first block in the window, and w₂
//! that of the last. The blocks between were given out after the first was done. Between the due
//! times of the first of them and of the last block, their packets take p each. The first of them
//! was due at most p before it was given out, and the last block was given out when it was due or
//! later. So their packets take p each of `t − w₁ − w₂ + p`, and C each of the processor. Together
//! that is `w₁ + w₂ + (C/p)·(t − w₁ − w₂ + p)`, and neither w is above P·C. It holds however long
//! other threads keep this one from running.
//!
//! # The driver
//! ```text
//! open a channel ─▶ offer its first message ─▶ next ─▶ Send: hand over, then sent ─▶ next …
//!                        ▲                      │ At(t): sleep until t       │
//!                        └──────────────────────┴──── Complete: offer the next message
//! ```
//! If a channel has no message, the next one is [offered](EgressScheduler::offer) as soon as it
//! comes; otherwise when the one before is complete.
//!
//! # The guarantee
//! Messages of channels leave within the bounds of `analysis::channel::egress`, for which thread
//! and link are one resource: a block takes the processor's time and then the link's, without
//! interruption. `tests/tests/virtual_time/egress.rs` compares the two.

mod regulator;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;

use punctual_model::channel::{Link, Packetisation};
use punctual_model::{Duration, Instant, Rank};

use crate::queues::{Class, ServiceOrder, ThreeQueues};
use regulator::{Message, Regulator};

pub use regulator::{Block, Credits, Offered, Promise, Sent, Terms};

/// The next action of the driver.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send this block now, then call [`EgressScheduler::sent`].
    Send(Block),
    /// Do nothing before this time, unless a message is offered.
    At(Instant),
    /// Do nothing until a message is offered.
    Idle,
}

/// The error when all places for channels are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// The egress scheduler's state machine. Channels are numbered from 0; the number of a closed one
/// is reused. [`next`](Self::next), [`offer`](Self::offer) and [`sent`](Self::sent) cost O(log n)
/// and allocate nothing.
#[derive(Clone, Debug)]
pub struct EgressScheduler {
    link: Link,
    cut: Packetisation,
    /// The time of the longest block on the link.
    longest: Duration,
    order: ServiceOrder,
    channels: Box<[Option<Channel>]>,
    /// The channels with a message that is not being sent.
    waiting: ThreeQueues<u32>,
    /// The time at which the link is free.
    free_at: Instant,
    /// The least time from one packet to the next, and the time at which the pace lets the next one
    /// begin.
    pace: Duration,
    rests_until: Instant,
    /// The channel whose block [`next`](Self::next) returned and that is not yet sent.
    leaving: Option<u32>,
    /// All numbers below it are in use.
    first_free: usize,
}

#[derive(Clone, Debug)]
struct Channel {
    regulator: Regulator,
    promise: Promise,
    message: Option<Message>,
    /// True if the channel was closed while its block was being sent.
    closed: bool,
}

impl EgressScheduler {
    /// Makes a scheduler for an idle link, with room for `room` channels. Messages are split into
    /// packets of `cut.packet_bytes`, of which `cut.packets_per_block` leave as one block.
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

    /// Begins each packet no sooner than `pace` after the one before was due, however fast the link
    /// is. A block counts as its number of packets. Lateness of up to `pace` is caught up.
    #[must_use]
    pub fn with_pace(self, pace: Duration) -> Self {
        Self { pace, ..self }
    }

    /// Opens a channel and returns its number.
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

    /// Polices an open channel by `credits` as well: messages without credit are too early. Its
    /// burst must be at least that of
    /// [`Policing::covering`](punctual_model::channel::Policing::covering). Returns false if there
    /// is no such channel.
    #[must_use]
    pub fn police_by(&mut self, channel: u32, credits: Credits) -> bool {
        let Some(channel) = self.open_mut(channel) else { return false };
        channel.regulator.credits = Some(credits);
        true
    }

    /// Changes the terms of an open channel from its next message on. The spacing still counts from
    /// the last message. Returns false if there is no such channel.
    #[must_use]
    pub fn change(&mut self, channel: u32, terms: Terms) -> bool {
        let Some(channel) = self.open_mut(channel) else { return false };
        channel.regulator.change(terms);
        channel.promise = terms.promise;
        true
    }

    /// Closes a channel and discards the rest of its message. Returns false if there is no such
    /// channel. O(n) if it has a message, for n channels.
    #[must_use]
    pub fn close(&mut self, channel: u32) -> bool {
        let is_leaving = self.leaving == Some(channel);
        let Some(state) = self.open_mut(channel) else { return false };
        if is_leaving {
            // The number becomes free when the block is reported as sent.
            (state.closed, state.message) = (true, None);
            return true;
        }
        if state.message.is_some() {
            let _was_waiting = self.waiting.remove(|waiting| *waiting == channel);
        }
        self.free(channel);
        true
    }

    /// Offers a message of `bytes` on `channel`: it just came, or the one before it was just
    /// completed. `arrived` is its arrival as a trusted thread saw it, at most `now`.
    ///
    /// # Panics
    /// If there is no such channel, or its last message is not complete.
    pub fn offer(&mut self, now: Instant, channel: u32, arrived: Instant, bytes: u32) -> Offered {
        self.offer_since(now, channel, arrived, arrived, bytes)
    }

    /// Offers a message that may have come at any time from `since` on, because nothing observed
    /// the queue while the message before it was being sent. It counts as arrived at the earliest
    /// possible time, so that a conforming sender does not fall behind; conformance is judged by
    /// `arrived`.
    ///
    /// This delays no other channel: before the previous message was complete this one could not
    /// leave in any case, and from then on it is queued as if it had come then.
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

    /// Returns the next action at `now`, which must not decrease.
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
            // A closed channel has no waiting message.
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
                // The pause of the pace left the link idle.
                self.free_at = free_at;
                self.rest(now, self.cut.packets_of(block.bytes));
                return Next::Send(block);
            }
        }
    }

    /// Records that a block of `packets` is given out. The pace counts from its due time, or from
    /// one pace ago if that is later.
    fn rest(&mut self, now: Instant, packets: u32) {
        if !self.pace.is_zero() {
            let late_at_most = now.as_nanos().saturating_sub(self.pace.as_nanos());
            let due = self.rests_until.max(Instant::from_nanos(late_at_most));
            let rest = self.pace.checked_mul(packets.into()).unwrap_or(Duration::MAX);
            self.rests_until = due.saturating_add(rest);
        }
    }

    /// Records that the block of [`next`](Self::next) was handed over at `now`, the earliest time
    /// at which its first packet began to leave.
    ///
    /// # Panics
    /// If there was no block.
    pub fn sent(&mut self, now: Instant) -> Sent {
        self.sent_part(now, u32::MAX)
    }

    /// Records that only the block's first `packets` were accepted; the rest is the channel's next
    /// block. At least one: if none was, call [`put_back`](Self::put_back).
    ///
    /// # Panics
    /// If there was no block.
    pub fn sent_part(&mut self, now: Instant, packets: u32) -> Sent {
        let channel = self.leaving.take().expect("a block was handed out");
        let state = self.channels[channel as usize].as_mut().expect("it had a block");
        let Some(message) = &mut state.message else {
            // The channel was closed in the meantime.
            self.free(channel);
            self.free_at = self.free_at.max(now);
            return Sent::Closed;
        };
        let block = message.block(channel, self.cut, None);
        let most = packets.max(1).saturating_mul(self.cut.packet_bytes());
        let block = Block { bytes: block.bytes.min(most), ..block };
        let busy = block.time_on(self.link, self.cut);
        // The block was due as soon as both it and the link were ready. Late hand-over is caught up
        // by at most the time of the longest block plus a pace, which then waits in the driver;
        // otherwise a busy link would lose every delay.
        let due = self.free_at.max(message.logical);
        let made_up = self.longest.saturating_add(self.pace);
        let late_at_most = now.as_nanos().saturating_sub(made_up.as_nanos());
        self.free_at = due.max(Instant::from_nanos(late_at_most)).saturating_add(busy);
        if message.advance(&block) {
            state.message = None;
            return Sent::Complete { leaves_by: self.free_at };
        }
        self.wait(now, channel, Instant::ZERO);
        Sent::MorePackets
    }

    /// Records that no packet of the block was accepted. The block comes again, not before `until`,
    /// with the same urgency; other channels may send in the meantime.
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

    /// Records that the block's message cannot be sent. The rest of it is discarded, and the next
    /// message of its channel may be offered. The block took no time on the link.
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

    /// Returns the time at which the [pace](Self::with_pace) lets the next block begin, whatever
    /// the link's state.
    pub fn rests_until(&self) -> Instant {
        self.rests_until
    }

    /// Returns the time at which the link is free.
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

    /// Queues the channel's message so that it does not leave before `until`.
    fn wait(&mut self, now: Instant, channel: u32, until: Instant) {
        let Some(Channel { promise, message: Some(message), .. }) =
            &self.channels[channel as usize]
        else {
            return;
        };
        // Best effort waits for its share as channels wait for their spacing, and then has the
        // lowest rank.
        let (rank, delay_bound) = match *promise {
            Promise::RealTime { rank, delay_bound } => (rank, delay_bound),
            Promise::BestEffort => (Rank(u32::MAX), Duration::MAX),
        };
        let urgency = self.order.urgency(rank, delay_bound, message.logical);
        let class = Class::RealTime { logical: message.logical.max(until), urgency };
        // There is one place for each channel, and no channel is queued twice.
        if self.waiting.push(now, class, channel).is_err() {
            unreachable!("a channel has a place of its own");
        }
    }
}
