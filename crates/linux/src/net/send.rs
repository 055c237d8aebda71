//! Sending: one datagram, a train of them, or a batch.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::os::fd::AsFd as _;

use punctual_model::time::Instant;
use rustix::io::Errno;

use super::address::Name;
use super::error::SendError;
use super::memory::Place;
use super::raw::{self, Envelope, SEND_ROOM};
use super::socket::UdpSocket;

/// The most datagrams that [`UdpSocket::send_batch`] takes at once.
pub const LARGEST_BATCH: usize = raw::BATCH;
/// The most segments in one train: UDP_MAX_SEGMENTS of the oldest kernels that know trains.
pub const LONGEST_TRAIN: usize = 64;
/// The payload of the longest UDP datagram over IPv4, and so of the longest train (udp(7)).
pub const LARGEST_PAYLOAD: usize = 65_507;

/// A datagram or train to send: the bytes of all parts in order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outgoing<'a> {
    /// The payload, gathered from several places, such as a header of ours and a payload in shared
    /// memory.
    pub parts: &'a [Place<'a>],
    /// The destination; `None` is the connected peer.
    pub to: Option<SocketAddr>,
    /// Splits the payload into datagrams of this many bytes; the last may be shorter (UDP_SEGMENT,
    /// udp(7)). They pass the stack together and follow each other on the link. At most
    /// [`LONGEST_TRAIN`].
    pub segment: Option<NonZeroU16>,
    /// The earliest departure. Takes effect only on a socket with [departure
    /// times](UdpSocket::set_departure_times).
    pub not_before: Option<Instant>,
}

impl<'a> Outgoing<'a> {
    /// Makes one datagram to the connected peer.
    pub fn new(parts: &'a [Place<'a>]) -> Self {
        Self { parts, ..Self::default() }
    }

    /// Returns the same as a train of segments of this many bytes.
    pub fn in_segments(self, bytes: NonZeroU16) -> Self {
        Self { segment: Some(bytes), ..self }
    }

    /// Returns the same, to this address.
    pub fn to(self, to: SocketAddr) -> Self {
        Self { to: Some(to), ..self }
    }

    /// Returns the same, not before this instant.
    pub fn not_before(self, at: Instant) -> Self {
        Self { not_before: Some(at), ..self }
    }

    /// Returns the length of the whole payload.
    pub fn len(&self) -> usize {
        self.parts.iter().map(Place::len).sum()
    }

    /// Returns true if the datagram is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn envelope(&self) -> Envelope<SEND_ROOM> {
        let mut envelope = Envelope::EMPTY;
        if let Some(to) = self.to {
            envelope.name = Name::of(to);
        }
        if let Some(segment) = self.segment {
            let bytes = segment.get().to_ne_bytes();
            envelope.control.push(libc::SOL_UDP, libc::UDP_SEGMENT, &bytes);
        }
        if let Some(at) = self.not_before {
            let nanos = at.as_nanos().to_ne_bytes();
            envelope.control.push(libc::SOL_SOCKET, libc::SCM_TXTIME, &nanos);
        }
        envelope
    }

    /// Refuses what the kernel would refuse without a helpful error.
    fn check(&self) -> Result<(), SendError> {
        let bytes = self.len();
        let segment = self.segment.map_or(usize::MAX, |segment| segment.get().into());
        let segments = bytes.div_ceil(segment);
        if self.segment.is_some() && (segments > LONGEST_TRAIN || bytes > LARGEST_PAYLOAD) {
            return Err(SendError::TrainTooLong { segments, bytes });
        }
        Ok(())
    }
}

impl UdpSocket {
    /// Sends a datagram or a train, now or not at all.
    ///
    /// # Errors
    /// Nothing was sent. The error may belong to an earlier datagram: see [`SendError`].
    ///
    /// ```
    /// use punctual_linux::net::{Inbox, Outgoing, Place, Setup, UdpSocket};
    ///
    /// let receiver = UdpSocket::open(&Setup::at("127.0.0.1:0".parse()?))?;
    /// let sender = UdpSocket::open(&Setup::to(receiver.local_address()?))?;
    /// // A header and a payload from two places, as two datagrams of four bytes.
    /// let parts = [Place::of(b"head"), Place::of(b"body")];
    /// let four = 4.try_into()?;
    /// sender.send(&Outgoing::new(&parts).in_segments(four))?;
    /// let mut inbox = Inbox::new(8, 2048);
    /// receiver.receive(&mut inbox)?;
    /// let got: Vec<&[u8]> = inbox.datagrams().map(|datagram| datagram.bytes).collect();
    /// assert_eq!(got, [b"head", b"body"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn send(&self, datagram: &Outgoing<'_>) -> Result<(), SendError> {
        datagram.check()?;
        let sent = raw::send(self.as_fd(), datagram.envelope(), datagram.parts);
        sent.map(drop).map_err(|errno| self.of_send(datagram, errno))
    }

    /// Sends the first of `datagrams`, as many as go now and at most [`LARGEST_BATCH`], in one
    /// system call (sendmmsg(2)). Returns how many were sent: at least one, or 0 if `datagrams` is
    /// empty.
    ///
    /// An error after the first datagram is not returned; sending the rest returns it.
    ///
    /// # Errors
    /// The first could not be sent.
    pub fn send_batch(&self, datagrams: &[Outgoing<'_>]) -> Result<usize, SendError> {
        let Some(first) = datagrams.first() else { return Ok(0) };
        first.check()?;
        let checked = datagrams.iter().take_while(|datagram| datagram.check().is_ok());
        raw::send_many(self.as_fd(), checked.map(|datagram| (datagram.envelope(), datagram.parts)))
            .map_err(|errno| self.of_send(first, errno))
    }

    fn of_send(&self, datagram: &Outgoing<'_>, errno: Errno) -> SendError {
        match errno {
            Errno::AGAIN => SendError::Full,
            Errno::NOBUFS => SendError::QueueFull,
            Errno::MSGSIZE => {
                let bytes = datagram.len();
                let bytes =
                    datagram.segment.map_or(bytes, |segment| bytes.min(segment.get().into()));
                SendError::TooLong { bytes, mtu: self.path_mtu().ok() }
            }
            Errno::CONNREFUSED => SendError::Refused,
            Errno::HOSTUNREACH | Errno::NETUNREACH => SendError::Unreachable { errno },
            Errno::NETDOWN | Errno::NODEV | Errno::NXIO => SendError::LinkDown { errno },
            Errno::ADDRNOTAVAIL => SendError::AddressGone,
            // A connected socket keeps its source address; once that is removed, routing fails like
            // this.
            Errno::INVAL if datagram.segment.is_none() => SendError::AddressGone,
            Errno::IO if datagram.segment.is_some() => SendError::NoTrains,
            Errno::PERM => SendError::Filtered,
            Errno::DESTADDRREQ | Errno::NOTCONN => SendError::NoDestination,
            errno => SendError::Failed(errno),
        }
    }
}
