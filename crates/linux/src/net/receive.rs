//! Receiving: many datagrams a call, each with its metadata from the kernel.

use std::net::SocketAddr;
use std::os::fd::AsFd as _;

use rustix::io::Errno;

use super::control::Messages;
use super::error::ReceiveError;
use super::memory::Room;
use super::raw::{self, Envelope, Outcome, RECEIVE_ROOM};
use super::socket::UdpSocket;
use super::stamps::WallStamp;

/// One arrival: a datagram, or with [`UdpSocket::set_receive_trains`] several consecutive ones of
/// one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// The payload bytes in its room.
    pub bytes: usize,
    /// True if it was longer than its room, and cut.
    pub cut: bool,
    /// The sender.
    pub from: Option<SocketAddr>,
    /// For a train: the length of each of its datagrams in bytes; the last one may be shorter.
    pub segment: Option<u16>,
    /// The time at which it came from the driver, if [stamps](UdpSocket::set_stamps) are on.
    pub stamp: Option<WallStamp>,
    /// The number of datagrams that this socket had dropped until this one came, modulo 2³², if
    /// [reported](UdpSocket::tell_drops). `None` also while there were none.
    pub drops: Option<u32>,
    /// Its traffic class, if [reported](UdpSocket::tell_traffic_class).
    pub traffic_class: Option<u8>,
}

impl Arrival {
    fn of(envelope: &Envelope<RECEIVE_ROOM>, outcome: Outcome) -> Self {
        let mut arrival = Self {
            bytes: outcome.bytes,
            cut: outcome.flags & libc::MSG_TRUNC != 0,
            from: envelope.name.written(outcome.name_len),
            ..Self::default()
        };
        for message in Messages::of(envelope.control.written(outcome.control_len)) {
            match (message.level, message.kind) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    arrival.segment = message.word(0).and_then(|bytes| u16::try_from(bytes).ok());
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                    arrival.stamp = WallStamp::of(&message)
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => arrival.drops = message.word(0),
                // IP_TOS comes as one byte, IPV6_TCLASS as an int.
                (libc::SOL_IP, libc::IP_TOS) => {
                    arrival.traffic_class = message.data.first().copied()
                }
                (libc::SOL_IPV6, libc::IPV6_TCLASS) => {
                    arrival.traffic_class =
                        message.word(0).and_then(|class| u8::try_from(class).ok());
                }
                _ => {}
            }
        }
        arrival
    }

    /// Returns the number of datagrams in it.
    pub fn datagrams(&self) -> usize {
        match self.segment {
            Some(segment) if segment > 0 => self.bytes.div_ceil(segment.into()),
            _ => 1,
        }
    }
}

/// One datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Its payload.
    pub bytes: &'a [u8],
    /// Its metadata; all datagrams of a train share one arrival.
    pub arrival: &'a Arrival,
}

/// Rooms of one size for received datagrams, allocated once.
#[derive(Clone, Debug)]
pub struct Inbox {
    memory: Vec<u8>,
    room: usize,
    arrivals: Vec<Arrival>,
    filled: usize,
}

impl Inbox {
    /// Makes `rooms` rooms of `bytes` each, at least one of each, at most
    /// [`LARGEST_BATCH`](super::LARGEST_BATCH) rooms. Trains need rooms of 65,535 bytes.
    pub fn new(rooms: usize, bytes: usize) -> Self {
        let (rooms, room) = (rooms.clamp(1, raw::BATCH), bytes.max(1));
        let arrivals = vec![Arrival::default(); rooms];
        Self { memory: vec![0; rooms.saturating_mul(room)], room, arrivals, filled: 0 }
    }

    /// Returns the largest number of arrivals in one [`UdpSocket::receive`].
    pub fn rooms(&self) -> usize {
        self.arrivals.len()
    }

    /// Returns the datagrams of the last [`UdpSocket::receive`], in order; trains are split.
    pub fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        let filled = self.arrivals[..self.filled].iter().zip(self.memory.chunks(self.room));
        filled.flat_map(|(arrival, room)| {
            let payload = &room[..arrival.bytes.min(room.len())];
            let whole = payload.len().max(1);
            let segment = arrival.segment.map_or(whole, usize::from).clamp(1, whole);
            // `chunks` of an empty payload yields nothing, but a datagram may be empty.
            let empty = payload.is_empty().then_some(payload);
            let datagrams = payload.chunks(segment).chain(empty);
            datagrams.map(move |bytes| Datagram { bytes, arrival })
        })
    }

    /// Returns the arrivals of the last [`UdpSocket::receive`].
    pub fn arrivals(&self) -> &[Arrival] {
        &self.arrivals[..self.filled]
    }
}

impl UdpSocket {
    /// Receives the waiting datagrams, up to the rooms of `inbox` (recvmmsg(2)). Returns the number
    /// of arrivals; 0 if there was nothing.
    ///
    /// # Errors
    /// [`ReceiveError::Pending`] once for each error of a sent datagram. The inbox is empty then.
    pub fn receive(&self, inbox: &mut Inbox) -> Result<usize, ReceiveError> {
        let rooms = inbox.rooms();
        self.receive_up_to(inbox, rooms)
    }

    /// Does the same as [`receive`](Self::receive), for at most `most` arrivals.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn receive_up_to(&self, inbox: &mut Inbox, most: usize) -> Result<usize, ReceiveError> {
        inbox.filled = 0;
        let rooms = inbox.memory.chunks_mut(inbox.room).take(most).map(Room::of);
        inbox.filled = self.receive_each(rooms, &mut inbox.arrivals)?;
        Ok(inbox.filled)
    }

    /// Does the same as [`receive`](Self::receive) into rooms anywhere, one arrival each, for
    /// payload that goes straight to shared memory. Receives at most as many as there are rooms,
    /// places in `arrivals`, and 64.
    ///
    /// # Errors
    /// As [`receive`](Self::receive); nothing is written then.
    pub fn receive_into(
        &self,
        rooms: &mut [Room<'_>],
        arrivals: &mut [Arrival],
    ) -> Result<usize, ReceiveError> {
        self.receive_each(rooms.iter_mut().map(Room::reborrow), arrivals)
    }

    fn receive_each<'a>(
        &self,
        rooms: impl Iterator<Item = Room<'a>>,
        arrivals: &mut [Arrival],
    ) -> Result<usize, ReceiveError> {
        let rooms = rooms.take(arrivals.len());
        let each = |at: usize, envelope: &_, outcome| arrivals[at] = Arrival::of(envelope, outcome);
        raw::receive_many(self.as_fd(), rooms, each).or_else(|errno| match errno {
            Errno::AGAIN => Ok(0),
            Errno::CONNREFUSED
            | Errno::HOSTUNREACH
            | Errno::NETUNREACH
            | Errno::HOSTDOWN
            | Errno::NONET
            | Errno::MSGSIZE
            | Errno::NOPROTOOPT
            | Errno::PROTO
            | Errno::OPNOTSUPP
            | Errno::ACCESS
            | Errno::NETDOWN => Err(ReceiveError::Pending(errno)),
            errno => Err(ReceiveError::Failed(errno)),
        })
    }
}
