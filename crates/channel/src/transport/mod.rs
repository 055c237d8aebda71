//! How packets leave: what a transport is, and one that only pretends.
//!
//! A [`Transport`] is handed packets, each the header before it and a piece of a message, wherever
//! that lies. It never waits. [`NullDevice`] is an emulated link: it keeps to a bandwidth and goes by
//! the time that it is told, so it works in virtual time as on a real clock. [`Faulty`] wraps a
//! transport and loses, holds back or refuses what a script says. [`Udp`] is the network.

mod faulty;
mod null;
#[cfg(test)]
mod tests;
mod udp;
mod wire;

pub use faulty::{Fault, Faulty};
pub use null::{FarEnd, NullDevice};
pub use udp::Udp;
pub use wire::Wire;

use punctual_linux::net::Place;
use punctual_model::Instant;
use thiserror::Error;

/// A piece of a message where it lies.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// In memory of this process.
    Bytes(&'a [u8]),
    /// In memory that others write meanwhile: for the kernel to read, and for nobody here.
    Shared(Place<'a>),
}

/// A packet: a header of ours, which may be empty, and a piece of a message.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Before the piece.
    pub head: &'a [u8],
    /// What is carried.
    pub piece: Piece<'a>,
}

impl Packet<'_> {
    /// Bytes of both.
    #[allow(clippy::len_without_is_empty, reason = "no packet is empty")]
    pub fn len(&self) -> usize {
        let piece = match self.piece {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Shared(place) => place.len(),
        };
        self.head.len() + piece
    }

    /// A copy of both, if this process may read them.
    pub fn copy(&self) -> Option<Vec<u8>> {
        match self.piece {
            Piece::Bytes(bytes) => Some([self.head, bytes].concat()),
            Piece::Shared(_) => None,
        }
    }
}

/// Why a packet was not taken. The packets before it were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotTaken {
    /// There is no room just now.
    #[error("the transport has no room{}: hand it over again", until_text(*.until))]
    WouldBlock {
        /// When there is, if that is known.
        until: Option<Instant>,
    },
    /// It will never fit.
    #[error("{bytes} bytes are more than the {mtu} that a packet may have: cut messages smaller")]
    TooLarge {
        /// Bytes of the packet, its header included.
        bytes: u32,
        /// The most.
        mtu: u32,
    },
    /// Just now nothing gets to its destination.
    #[error("the destination cannot be reached: is the link up, and is there a route?")]
    Unreachable,
    /// Nothing ever will again: the transport must be opened anew.
    #[error("the transport is gone: open another")]
    Gone,
}

fn until_text(until: Option<Instant>) -> String {
    until.map_or(String::new(), |until| format!(" before {until}"))
}

/// Takes packets to their destinations, in order, and never waits.
pub trait Transport {
    /// What packets are addressed to.
    type To: Copy;

    /// Hands over `packets` at `now`, the first of them first. How many were taken, and why the next
    /// one was not; `now` never goes back.
    fn hand_over(&mut self, now: Instant, to: Self::To, packets: &[Packet<'_>]) -> HandedOver;
}

/// How far a hand-over got.
#[must_use = "what was not taken is still to be handed over, or lost"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedOver {
    /// Packets that were taken, from the first on.
    pub packets: usize,
    /// What stopped it; `None` if all were taken.
    pub stopped: Option<NotTaken>,
}
