//! A modem's bits as a stream of bytes, with or without error control: detection, LAPM, and plain
//! characters if the far end has no error control.

use std::collections::VecDeque;

use punctual_model::{Duration, Instant};

use crate::modem::Role;
use crate::uart::{self, push_character};

use super::detect::{Answerer, Originator};
use super::hdlc::{Deframer, DeframerStats, Framer};
use super::link::{Closed, LinkState, LinkStats, Parameters};
use super::stream::Stream;
use super::xid::Compression;

/// Bytes that may wait in either direction without error control.
const PLAIN_ROOM: usize = 4_096;

/// The way a session begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Without error control.
    Plain,
    /// With LAPM at once: the far end is known to support it.
    Direct,
    /// With detection first. Without an answer within T400, the session has no error control.
    Detect {
        /// T400: 750 ms in V.42, longer if the far end's modem may still be training.
        t400: Duration,
    },
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Not decided yet.
    Pending,
    /// Bytes flow, without error control.
    Plain,
    /// Bytes flow, and errors are corrected.
    Corrected,
    /// Over.
    Closed(Closed),
}

enum Stage {
    Asking(Originator, Instant),
    Listening(Answerer, Instant),
    Link(Box<Stream>),
    Plain,
}

/// One end of a call, between its modem's bits and its terminal's bytes.
pub struct Session {
    role: Role,
    parameters: Parameters,
    stage: Stage,
    framer: Framer,
    deframer: Deframer,
    sending: VecDeque<bool>,
    to_send: VecDeque<u8>,
    received: VecDeque<u8>,
    receiver: uart::Receiver,
    overrun: u64,
}

impl Session {
    /// Creates a session whose modem is connected at `now`.
    pub fn new(now: Instant, role: Role, parameters: Parameters, start: Start) -> Self {
        let stage = match (start, role) {
            (Start::Plain, _) => Stage::Plain,
            (Start::Direct, _) => Stage::Link(Box::new(Stream::new(now, role, parameters))),
            (Start::Detect { t400 }, Role::Calling) => {
                Stage::Asking(Originator::default(), now.saturating_add(t400))
            }
            (Start::Detect { t400 }, Role::Answering) => {
                Stage::Listening(Answerer::default(), now.saturating_add(t400))
            }
        };
        Self {
            role,
            parameters,
            stage,
            framer: Framer::default(),
            deframer: Deframer::default(),
            sending: VecDeque::with_capacity(16),
            to_send: VecDeque::with_capacity(PLAIN_ROOM),
            received: VecDeque::with_capacity(PLAIN_ROOM),
            receiver: uart::Receiver::default(),
            overrun: 0,
        }
    }

    /// Returns the next bit for the modem.
    #[inline]
    pub fn next_bit(&mut self, now: Instant) -> bool {
        // The fast path for most bits of most lines: an idle plain line, or inside a flag or a
        // byte.
        let known = match self.stage {
            Stage::Plain => (self.sending.is_empty() && self.to_send.is_empty()).then_some(true),
            Stage::Link(_) => self.framer.bit_under_way(),
            _ => None,
        };
        known.unwrap_or_else(|| self.next_bit_of(now))
    }

    fn next_bit_of(&mut self, now: Instant) -> bool {
        self.settle_start(now);
        match &mut self.stage {
            Stage::Asking(originator, _) => originator.next_bit(),
            Stage::Listening(answerer, _) => answerer.next_bit(),
            Stage::Link(link) => self.framer.next_bit(|| link.next_frame(now)),
            Stage::Plain => {
                if self.sending.is_empty()
                    && let Some(byte) = self.to_send.pop_front()
                {
                    push_character(&mut self.sending, byte);
                }
                self.sending.pop_front().unwrap_or(true)
            }
        }
    }

    /// Takes a bit from the modem.
    #[inline]
    pub fn put_bit(&mut self, now: Instant, bit: bool) {
        // The fast path again: ones between characters, or inside a byte.
        let is_done = match self.stage {
            Stage::Plain => bit && self.receiver.is_between(),
            Stage::Link(_) => self.deframer.put_inside(bit),
            _ => false,
        };
        if !is_done {
            self.put_bit_of(now, bit);
        }
    }

    fn put_bit_of(&mut self, now: Instant, bit: bool) {
        if let Stage::Link(link) = &mut self.stage {
            if let Some(frame) = self.deframer.put_other(bit) {
                link.frame(now, frame);
            }
            return;
        }
        self.settle_start(now);
        match &mut self.stage {
            Stage::Asking(originator, _) => {
                if originator.put_bit(bit) {
                    self.begin(now);
                }
            }
            Stage::Listening(answerer, _) => {
                answerer.put_bit(bit);
                // A calling end that skips detection, or has seen enough of the answer, sends
                // frames.
                if let Some(frame) = self.deframer.put_bit(bit) {
                    let mut link = Stream::new(now, self.role, self.parameters);
                    link.frame(now, frame);
                    self.stage = Stage::Link(Box::new(link));
                }
            }
            // The link has just begun.
            Stage::Link(_) => self.put_bit(now, bit),
            Stage::Plain => {
                if let Some(byte) = self.receiver.put_bit(bit) {
                    if self.received.len() < PLAIN_ROOM {
                        self.received.push_back(byte);
                    } else {
                        self.overrun += 1;
                    }
                }
            }
        }
    }

    /// Does the work due at `now`. Sending does it too, but only between two flags or bytes. Call
    /// it with each block of samples, because a modem that trains takes no bits from the session.
    pub fn settle(&mut self, now: Instant) {
        self.settle_start(now);
        if let Stage::Link(link) = &mut self.stage {
            link.handle_timeout(now);
        }
    }

    /// Begins error control or gives it up, if it is time.
    fn settle_start(&mut self, now: Instant) {
        match &self.stage {
            Stage::Listening(answerer, _) if answerer.is_done() => self.begin(now),
            Stage::Asking(_, until) if *until <= now => self.stage = Stage::Plain,
            Stage::Listening(answerer, until) if *until <= now && !answerer.has_seen() => {
                self.stage = Stage::Plain;
            }
            _ => {}
        }
    }

    /// Takes bytes for the far end, as many as there is room for, and returns their number.
    #[must_use = "bytes beyond the number returned were not taken"]
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        match &mut self.stage {
            Stage::Link(link) => link.write(bytes),
            Stage::Plain => {
                let taken = &bytes[..bytes.len().min(PLAIN_ROOM - self.to_send.len())];
                self.to_send.extend(taken);
                taken.len()
            }
            _ => 0,
        }
    }

    /// Moves bytes from the far end to the front of `into` and returns their number.
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        if let Stage::Link(link) = &mut self.stage {
            return link.read(into);
        }
        let count = into.len().min(self.received.len());
        for (slot, byte) in into.iter_mut().zip(self.received.drain(..count)) {
            *slot = byte;
        }
        count
    }

    /// Returns the number of bytes that can be read.
    pub fn readable(&self) -> usize {
        match &self.stage {
            Stage::Link(link) => link.readable(),
            _ => self.received.len(),
        }
    }

    /// Returns the state of the session.
    pub fn outcome(&self) -> Outcome {
        match &self.stage {
            Stage::Asking(..) | Stage::Listening(..) => Outcome::Pending,
            Stage::Plain => Outcome::Plain,
            Stage::Link(link) => match link.state() {
                LinkState::Establishing => Outcome::Pending,
                LinkState::Connected | LinkState::Releasing => Outcome::Corrected,
                LinkState::Closed(why) => Outcome::Closed(why),
            },
        }
    }

    /// Returns the number of bytes taken that are not known to have arrived; without error control,
    /// of those not yet sent.
    pub fn unacknowledged(&self) -> usize {
        match &self.stage {
            Stage::Link(link) => link.unacknowledged(),
            _ => self.to_send.len() + self.sending.len().div_ceil(10),
        }
    }

    /// Ends error control; without it does nothing.
    pub fn release(&mut self) {
        if let Stage::Link(link) = &mut self.stage {
            link.release();
        }
    }

    /// Returns the link's counters, if there is a link.
    pub fn link_stats(&self) -> Option<LinkStats> {
        match &self.stage {
            Stage::Link(link) => Some(link.stats()),
            _ => None,
        }
    }

    /// Returns the compression that the ends agreed on: none without error control.
    pub fn compression(&self) -> Compression {
        match &self.stage {
            Stage::Link(link) => link.compression(),
            _ => Compression::default(),
        }
    }

    /// Returns the counts of received and discarded frames.
    pub fn deframer_stats(&self) -> DeframerStats {
        self.deframer.stats()
    }

    /// Returns the number of bytes lost because they were not read, and of characters without a
    /// stop bit. Both stay zero with error control.
    pub fn plain_losses(&self) -> (u64, u64) {
        (self.overrun, self.receiver.framing_errors())
    }

    fn begin(&mut self, now: Instant) {
        self.stage = Stage::Link(Box::new(Stream::new(now, self.role, self.parameters)));
    }
}
