//! The path of sent packets.

use std::net::SocketAddr;
use std::sync::Arc;

use punctual_channel::fragment::HEADER_BYTES;
use punctual_channel::server::sender::thread::trial::Destination;
use punctual_linux::net::{Inbox, Setup, UdpSocket, probe};

use super::super::ground::Ground;
use super::Reason;

/// The number of datagrams that are discarded in one call.
const DRAINED: usize = 64;

/// A path for packets, and its far end.
pub(super) struct Path {
    /// The description, in words.
    pub(super) name: String,
    pub(super) destination: Destination,
    /// The most bytes of a packet besides our header.
    pub(super) largest_packet: u32,
    /// The far end of a network of our own.
    far: Option<UdpSocket>,
    _ground: Option<Ground>,
}

impl Path {
    /// Makes a path to an address as the kernel routes it. Packets leave the host.
    pub(super) fn to(to: SocketAddr) -> Result<Self, Reason> {
        let near = UdpSocket::open(&Setup::to(to)).map_err(|why| why.to_string())?;
        Self::of(near, None, to.to_string(), None)
    }

    /// Makes a path on a network of our own.
    pub(super) fn of_our_own() -> Result<Self, Reason> {
        let ground = Ground::find();
        let (near, far) = ground.pair()?;
        Self::of(near, Some(far), ground.name.to_owned(), Some(ground))
    }

    fn of(
        near: UdpSocket,
        far: Option<UdpSocket>,
        name: String,
        ground: Option<Ground>,
    ) -> Result<Self, Reason> {
        let payload = near.longest_payload().map_err(|why| why.to_string())?;
        let largest_packet = payload.saturating_sub(HEADER_BYTES as u32);
        // The broker makes the same check before it starts its thread.
        let trains = probe::trains().works();
        let destination = Destination::Network { socket: Arc::new(near), trains };
        Ok(Self { name, destination, largest_packet, far, _ground: ground })
    }

    /// Discards the datagrams that have arrived at the far end, to make room for more.
    pub(super) fn drain(&self) {
        let Some(far) = &self.far else { return };
        let mut inbox = Inbox::new(DRAINED, 1);
        while far.receive(&mut inbox).is_ok_and(|arrivals| arrivals == DRAINED) {}
    }
}
