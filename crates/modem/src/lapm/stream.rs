//! A link and the compression that its ends agreed on: the terminal's bytes on one side, frames on
//! the other.

use std::collections::VecDeque;

use punctual_model::Instant;

use crate::modem::Role;
use crate::v42bis::{Decoder, Encoder};

use super::hdlc::Frame;
use super::link::{Link, LinkState, LinkStats, Parameters};
use super::xid::Compression;

/// Compressed bytes that wait for the link.
const ROOM: usize = 512;

/// The largest number of bytes that an encoder makes of one octet: a codeword with all commands
/// before it.
const MOST_AT_ONCE: usize = 32;

/// A link with or without compression.
pub(super) struct Stream {
    link: Link,
    role: Role,
    encoder: Option<Encoder>,
    decoder: Option<Decoder>,
    /// True once the encoder and the decoder are as the ends agreed.
    agreed: bool,
    to_link: VecDeque<u8>,
    decoded: VecDeque<u8>,
}

impl Stream {
    pub(super) fn new(now: Instant, role: Role, parameters: Parameters) -> Self {
        Self {
            link: Link::new(now, role, parameters),
            role,
            encoder: None,
            decoder: None,
            agreed: !parameters.compression.is_any(),
            to_link: VecDeque::with_capacity(ROOM),
            decoded: VecDeque::with_capacity(ROOM),
        }
    }

    pub(super) fn frame(&mut self, now: Instant, bytes: &[u8]) {
        self.link.frame(now, bytes);
        self.agree();
    }

    pub(super) fn next_frame(&mut self, now: Instant) -> Option<Frame> {
        self.feed();
        self.link.next_frame(now)
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.link.handle_timeout(now);
    }

    /// Takes bytes for the far end and returns their number. Takes none before the ends have agreed
    /// on compression.
    pub(super) fn write(&mut self, bytes: &[u8]) -> usize {
        if !self.agreed || self.is_ending() {
            return 0;
        }
        let Some(encoder) = &mut self.encoder else { return self.link.write(bytes) };
        let mut taken = 0;
        while taken < bytes.len() && self.to_link.len() + MOST_AT_ONCE <= ROOM {
            encoder.put(bytes[taken], |octet| self.to_link.push_back(octet));
            taken += 1;
        }
        taken
    }

    /// Moves bytes from the far end to the front of `into` and returns their number.
    pub(super) fn read(&mut self, into: &mut [u8]) -> usize {
        let Some(decoder) = &mut self.decoder else { return self.link.read(into) };
        let mut octet = [0];
        while self.decoded.len() < into.len() && self.link.read(&mut octet) == 1 {
            let decoded = &mut self.decoded;
            if decoder.put(octet[0], |string| decoded.extend(string)).is_err() {
                // The following bytes are meaningless and must not reach the terminal.
                self.decoder = None;
                self.link.break_off();
                break;
            }
        }
        let count = into.len().min(self.decoded.len());
        for (slot, byte) in into.iter_mut().zip(self.decoded.drain(..count)) {
            *slot = byte;
        }
        count
    }

    /// Returns zero if nothing can be read, neither now nor from what has arrived.
    pub(super) fn readable(&self) -> usize {
        self.decoded.len() + self.link.readable()
    }

    /// Returns zero if all bytes written have arrived.
    pub(super) fn unacknowledged(&self) -> usize {
        let held_back = self.encoder.as_ref().is_some_and(Encoder::holds_back);
        usize::from(held_back) + self.to_link.len() + self.link.unacknowledged()
    }

    pub(super) fn release(&mut self) {
        self.link.release();
    }

    pub(super) fn state(&self) -> LinkState {
        self.link.state()
    }

    pub(super) fn stats(&self) -> LinkStats {
        self.link.stats()
    }

    /// Returns the compression that the ends agreed on: final once the link is connected.
    pub(super) fn compression(&self) -> Compression {
        self.link.compression()
    }

    fn is_ending(&self) -> bool {
        matches!(self.link.state(), LinkState::Releasing | LinkState::Closed(_))
    }

    /// Creates the encoder and the decoder once the link is connected and both ends know whether
    /// there is compression.
    fn agree(&mut self) {
        if self.agreed || self.link.state() != LinkState::Connected {
            return;
        }
        self.agreed = true;
        let Compression { from_caller, from_answerer, sizes } = self.link.compression();
        let (sends, receives) = match self.role {
            Role::Calling => (from_caller, from_answerer),
            Role::Answering => (from_answerer, from_caller),
        };
        self.encoder = sends.then(|| Encoder::new(sizes));
        self.decoder = receives.then(|| Decoder::new(sizes));
    }

    /// Gives compressed bytes to the link. Bytes that the encoder holds back follow as soon as the
    /// link would be idle without them.
    fn feed(&mut self) {
        let Some(encoder) = &mut self.encoder else { return };
        if self.to_link.is_empty() && self.link.unsent() == 0 && encoder.holds_back() {
            encoder.flush(|octet| self.to_link.push_back(octet));
        }
        let (front, back) = self.to_link.as_slices();
        let mut taken = self.link.write(front);
        if taken == front.len() {
            taken += self.link.write(back);
        }
        self.to_link.drain(..taken);
    }
}
