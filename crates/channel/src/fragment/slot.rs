//! A slot for one message that is not complete; the facts about a channel that its receiver knows
//! beforehand, and the memory that it needs for them.

use std::num::NonZeroU16;

use punctual_model::channel::LinearBounded;
use punctual_model::{Duration, Instant};

use super::header::Header;
use super::history::MOST_IN_FLIGHT;

/// The facts about a channel that its receiver knows beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The channel's number, as sender and receiver agreed.
    pub channel: u32,
    /// The sender's traffic contract. Room is made for its burst and one message more, at most
    /// [`MOST_IN_FLIGHT`].
    pub arrivals: LinearBounded,
    /// The delay bound promised to the channel.
    pub delay_bound: Duration,
    /// The smallest fragments into which longer messages are cut. Smaller ones are refused: each
    /// costs room of its own.
    pub least_fragment: NonZeroU16,
}

impl Limits {
    pub(super) fn rooms(&self) -> u32 {
        let Self { arrivals, least_fragment, .. } = self;
        if arrivals.max_message() <= u32::from(least_fragment.get()) {
            return 0;
        }
        arrivals.max_burst().saturating_add(1).min(MOST_IN_FLIGHT)
    }

    /// Returns the bytes that a [`Reassembly`](super::Reassembly) needs for messages that are not
    /// complete; it allocates all of them when it is created.
    pub fn memory(&self) -> u64 {
        let max_message = self.arrivals.max_message();
        let bits = 8 * words_for(max_message, self.least_fragment.get()) as u64;
        u64::from(self.rooms()) * (u64::from(max_message) + bits)
    }
}

#[derive(Debug)]
pub(super) struct Slot {
    bytes: Box<[u8]>,
    /// One bit for each fragment.
    have: Box<[u64]>,
    partial: Option<Partial>,
}

/// The state of the message inside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Partial {
    pub(super) message: u64,
    pub(super) length: u32,
    pub(super) fragment_bytes: u16,
    /// The number of fragments that have not come.
    missing: u32,
    pub(super) first_sent: Option<Instant>,
    /// The time at which the message is given up, once that is known.
    pub(super) give_up_at: Option<Instant>,
}

/// The outcome of putting a fragment in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    Duplicate,
    /// The length or the cut differs from that of earlier fragments.
    Contradicts(Partial),
    More,
    Complete(Partial),
}

impl PartialEq for Partial {
    fn eq(&self, other: &Self) -> bool {
        self.message == other.message
    }
}
impl Eq for Partial {}

impl Slot {
    /// Creates a slot for messages of up to `max_message` bytes in fragments of at least
    /// `least_fragment`.
    pub(super) fn new(max_message: u32, least_fragment: u16) -> Self {
        let words = words_for(max_message, least_fragment);
        Self {
            bytes: vec![0; max_message as usize].into(),
            have: vec![0; words].into(),
            partial: None,
        }
    }

    pub(super) fn partial(&self) -> Option<&Partial> {
        self.partial.as_ref()
    }

    pub(super) fn partial_mut(&mut self) -> Option<&mut Partial> {
        self.partial.as_mut()
    }

    pub(super) fn clear(&mut self) {
        self.partial = None;
    }

    /// Makes room for the message to which `header` belongs.
    pub(super) fn begin(&mut self, header: &Header, give_up_at: Option<Instant>) {
        let Header { message, length, fragment_bytes, .. } = *header;
        // Only as many bits as this message needs: a large slot may hold a small message.
        self.have[..words_for(length, fragment_bytes)].fill(0);
        let missing = length.div_ceil(fragment_bytes.into());
        self.partial = Some(Partial {
            message,
            length,
            fragment_bytes,
            missing,
            first_sent: None,
            give_up_at,
        });
    }

    /// Puts in a fragment of the message inside. The bytes of a complete message stay until the
    /// next one begins.
    ///
    /// # Panics
    /// Panics if there is no message inside.
    pub(super) fn put(&mut self, header: &Header, piece: &[u8]) -> Put {
        let partial = self.partial.as_mut().expect("a message was begun");
        if (header.length, header.fragment_bytes) != (partial.length, partial.fragment_bytes) {
            return Put::Contradicts(*partial);
        }
        let index = header.offset / u32::from(header.fragment_bytes);
        let (word, bit) = (&mut self.have[index as usize / 64], 1 << (index % 64));
        if *word & bit != 0 {
            return Put::Duplicate;
        }
        *word |= bit;
        self.bytes[header.offset as usize..][..piece.len()].copy_from_slice(piece);
        partial.first_sent = match (partial.first_sent, header.sent) {
            (Some(first), Some(sent)) => Some(first.min(sent)),
            (first, sent) => first.or(sent),
        };
        partial.missing -= 1;
        if partial.missing > 0 {
            return Put::More;
        }
        let complete = *partial;
        self.partial = None;
        Put::Complete(complete)
    }

    /// Returns the first `length` bytes of the message that was inside last.
    pub(super) fn bytes(&self, length: u32) -> &[u8] {
        &self.bytes[..length as usize]
    }
}

/// Returns the number of 64-bit words for one bit per fragment.
fn words_for(length: u32, fragment_bytes: u16) -> usize {
    length.div_ceil(fragment_bytes.into()).div_ceil(u64::BITS) as usize
}
