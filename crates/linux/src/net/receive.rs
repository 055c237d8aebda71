//! Receiving: many datagrams a call, each with what the kernel tells about it.

use std::net::SocketAddr;
use std::os::fd::AsFd as _;

use rustix::io::Errno;

use super::control::Messages;
use super::error::ReceiveError;
use super::memory::Room;
use super::raw::{self, Envelope, Outcome, RECEIVE_ROOM};
use super::socket::UdpSocket;
use super::stamps::WallStamp;

/// One arrival: a datagram, or with [`UdpSocket::set_receive_trains`] several of one flow in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Payload bytes in its room.
    pub bytes: usize,
    /// Whether it was longer than its room, and cut.
    pub cut: bool,
    /// From whom.
    pub from: Option<SocketAddr>,
    /// It is a train of datagrams of this many bytes each, the last being what is left.
    pub segment: Option<u16>,
    /// When it came from the driver, if [stamps](UdpSocket::set_stamps) are on.
    pub stamp: Option<WallStamp>,
    /// Datagrams that this socket did not keep until this came, modulo 2³², if it
    /// [tells](UdpSocket::tell_drops). `None` also while there were none.
    pub drops: Option<u32>,
    /// Its traffic class, if it [tells](UdpSocket::tell_traffic_class).
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
                // IP_TOS is told as one byte, IPV6_TCLASS as an int.
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

    /// How many datagrams it is.
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
    /// What came with it; of a train, the same for each of its datagrams.
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
    /// `rooms` rooms of `bytes` each, at least one of each, at most
    /// [`LARGEST_BATCH`](super::LARGEST_BATCH) rooms. Trains need rooms of 65,535 bytes.
    pub fn new(rooms: usize, bytes: usize) -> Self {
        let (rooms, room) = (rooms.clamp(1, raw::BATCH), bytes.max(1));
        let arrivals = vec![Arrival::default(); rooms];
        Self { memory: vec![0; rooms.saturating_mul(room)], room, arrivals, filled: 0 }
    }

    /// How many arrivals one [`UdpSocket::receive`] brings at most.
    pub fn rooms(&self) -> usize {
        self.arrivals.len()
    }

    /// What the last [`UdpSocket::receive`] brought, in order; trains are taken apart.
    pub fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        let filled = self.arrivals[..self.filled].iter().zip(self.memory.chunks(self.room));
        filled.flat_map(|(arrival, room)| {
            let payload = &room[..arrival.bytes.min(room.len())];
            let whole = payload.len().max(1);
            let segment = arrival.segment.map_or(whole, usize::from).clamp(1, whole);
            // No chunk is an empty slice, but a datagram may be.
            let empty = payload.is_empty().then_some(payload);
            let datagrams = payload.chunks(segment).chain(empty);
            datagrams.map(move |bytes| Datagram { bytes, arrival })
        })
    }

    /// The arrivals themselves.
    pub fn arrivals(&self) -> &[Arrival] {
        &self.arrivals[..self.filled]
    }
}

impl UdpSocket {
    /// Receives what is there, as much as `inbox` has rooms for (recvmmsg(2)). How many arrivals;
    /// 0 if there was nothing.
    ///
    /// # Errors
    /// [`ReceiveError::Pending`] once for each error that something sent met. The inbox is empty.
    pub fn receive(&self, inbox: &mut Inbox) -> Result<usize, ReceiveError> {
        let rooms = inbox.rooms();
        self.receive_up_to(inbox, rooms)
    }

    /// As [`receive`](Self::receive), but no more than `most` arrivals.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn receive_up_to(&self, inbox: &mut Inbox, most: usize) -> Result<usize, ReceiveError> {
        inbox.filled = 0;
        let rooms = inbox.memory.chunks_mut(inbox.room).take(most).map(Room::of);
        inbox.filled = self.receive_each(rooms, &mut inbox.arrivals)?;
        Ok(inbox.filled)
    }

    /// As [`receive`](Self::receive), into rooms anywhere, one arrival each: for payload that goes
    /// straight to shared memory. As many as there are rooms, places in `arrivals`, and 64.
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
