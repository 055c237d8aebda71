//! The trait of transports, and the packets that they are handed.

use punctual_linux::net::Place;
use punctual_model::Instant;
use thiserror::Error;

/// A piece of a message in its memory.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// In memory of this process.
    Bytes(&'a [u8]),
    /// In memory that other processes write meanwhile: for the kernel to read, not for this
    /// process.
    Shared(Place<'a>),
}

/// A packet: a header of ours, which may be empty, and a piece of a message.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The header before the piece.
    pub head: &'a [u8],
    /// The carried piece.
    pub piece: Piece<'a>,
}

impl Packet<'_> {
    /// Returns the bytes of both.
    #[allow(clippy::len_without_is_empty, reason = "no packet is empty")]
    pub fn len(&self) -> usize {
        let piece = match self.piece {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Shared(place) => place.len(),
        };
        self.head.len() + piece
    }

    /// Returns a copy of both, if this process may read them.
    pub fn copy(&self) -> Option<Vec<u8>> {
        match self.piece {
            Piece::Bytes(bytes) => Some([self.head, bytes].concat()),
            Piece::Shared(_) => None,
        }
    }
}

/// The reason why a packet was not taken. The packets before it were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotTaken {
    /// There is no room at the moment.
    #[error("the transport has no room{}: hand it over again", until_text(*.until))]
    WouldBlock {
        /// The time at which there is room, if that is known.
        until: Option<Instant>,
    },
    /// It will never fit.
    #[error("{bytes} bytes are more than the {mtu} that a packet may have: cut messages smaller")]
    TooLarge {
        /// The bytes of the packet, its header included.
        bytes: u32,
        /// The largest size.
        mtu: u32,
    },
    /// Its destination cannot be reached at the moment.
    #[error("the destination cannot be reached: is the link up, and is there a route?")]
    Unreachable,
    /// The transport will never work again: it must be opened anew.
    #[error("the transport is gone: open another")]
    Gone,
}

fn until_text(until: Option<Instant>) -> String {
    until.map_or(String::new(), |until| format!(" before {until}"))
}

/// Takes packets to their destinations, in order, and never waits.
pub trait Transport {
    /// The address of a packet.
    type To: Copy;

    /// Hands over `packets` at `now`, in their order. Returns how many were taken, and why the next
    /// one was not; `now` never goes back.
    fn hand_over(&mut self, now: Instant, to: Self::To, packets: &[Packet<'_>]) -> HandedOver;
}

/// The result of a hand-over.
#[must_use = "what was not taken is still to be handed over, or lost"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedOver {
    /// The number of packets that were taken, from the first on.
    pub packets: usize,
    /// The reason why it stopped; `None` if all were taken.
    pub stopped: Option<NotTaken>,
}
