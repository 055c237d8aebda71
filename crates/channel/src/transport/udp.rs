//! Sends packets as UDP datagrams, by connected sockets, so that the kernel looks each route up
//! once.
//!
//! A channel whose datagrams are as its client wrote them has a socket of its own: only its port
//! distinguishes it from others, and error reports of routers and peers about its datagrams reach
//! no other channel. Channels whose packets have headers may share a socket, if they have one
//! destination.
//!
//! [`Wire`] is the transport that a server has chosen: this one or an emulated link.

use std::num::NonZeroU16;
use std::sync::Arc;

use punctual_linux::net::{LARGEST_PAYLOAD, LONGEST_TRAIN, Outgoing, Place, SendError, UdpSocket};
use punctual_model::{Duration, Instant};

use super::emulated::NullDevice;
use super::packet::{HandedOver, NotTaken, Packet, Piece, Transport};

/// The time after which a queue that was full is tried again: that of some packets on a fast link.
const RETRY: Duration = Duration::from_micros(50);

/// Sockets by the numbers of their channels.
#[derive(Debug)]
pub struct Udp {
    sockets: Box<[Option<Arc<UdpSocket>>]>,
    trains: bool,
}

impl Udp {
    /// Creates a transport without sockets, for channel numbers below `room`. `trains` is true if a
    /// probe has seen UDP_SEGMENT work (`punctual_linux::net::probe`); otherwise each packet is a
    /// system call of its own.
    pub fn new(room: u32, trains: bool) -> Self {
        Self { sockets: (0..room).map(|_| None).collect(), trains }
    }

    /// Gives a channel a connected socket; returns the one that it had.
    ///
    /// # Panics
    /// Panics if the number is too large.
    pub fn attach(&mut self, channel: u32, socket: Arc<UdpSocket>) -> Option<Arc<UdpSocket>> {
        self.sockets[channel as usize].replace(socket)
    }

    /// Takes a channel's socket away and returns it.
    pub fn detach(&mut self, channel: u32) -> Option<Arc<UdpSocket>> {
        self.sockets.get_mut(channel as usize)?.take()
    }
}

impl Transport for Udp {
    /// The number of the channel.
    type To = u32;

    fn hand_over(&mut self, now: Instant, to: u32, packets: &[Packet<'_>]) -> HandedOver {
        let Some(socket) = self.sockets.get(to as usize).and_then(Option::as_deref) else {
            return HandedOver { packets: 0, stopped: Some(NotTaken::Gone) };
        };
        let mut taken = 0;
        while taken < packets.len() {
            let left = &packets[taken..];
            let outcome = match left {
                [first, _, ..] if self.trains => train(socket, first, left),
                [first, ..] => {
                    send(socket, &[Place::of(first.head), piece(first)], None).map(|()| 1)
                }
                [] => Ok(0),
            };
            match outcome {
                Ok(sent) => taken += sent,
                Err(SendError::NoTrains) if self.trains => self.trains = false,
                Err(error) => {
                    let stopped = Some(not_taken(&error, now, &left[0]));
                    return HandedOver { packets: taken, stopped };
                }
            }
        }
        HandedOver { packets: taken, stopped: None }
    }
}

/// Sends as many of the packets as form one train: of one length, except the last. Returns their
/// number.
fn train(
    socket: &UdpSocket,
    first: &Packet<'_>,
    packets: &[Packet<'_>],
) -> Result<usize, SendError> {
    let segment = first.len();
    let most = LONGEST_TRAIN.min(LARGEST_PAYLOAD / segment.max(1)).max(1);
    let full = packets.iter().take(most).take_while(|packet| packet.len() == segment).count();
    let shorter = packets.get(full).is_some_and(|last| full < most && last.len() < segment);
    let count = full + usize::from(shorter);
    let mut parts = [Place::of(&[]); 2 * LONGEST_TRAIN];
    for (packet, parts) in packets[..count].iter().zip(parts.as_chunks_mut::<2>().0) {
        *parts = [Place::of(packet.head), piece(packet)];
    }
    let segment = u16::try_from(segment).ok().and_then(NonZeroU16::new).filter(|_| count > 1);
    send(socket, &parts[..2 * count], segment).map(|()| count)
}

fn send(
    socket: &UdpSocket,
    parts: &[Place<'_>],
    segment: Option<NonZeroU16>,
) -> Result<(), SendError> {
    // The kernel walks through empty parts, too.
    let parts = if parts.len() == 2 && parts[0].is_empty() { &parts[1..] } else { parts };
    let datagram = Outgoing { parts, segment, ..Outgoing::default() };
    match socket.send(&datagram) {
        // The kernel reports the error of an earlier datagram once, in place of sending.
        Err(SendError::Refused) => {
            while let Ok(Some(_)) = socket.take_notice() {}
            socket.send(&datagram)
        }
        outcome => outcome,
    }
}

fn piece<'a>(packet: &Packet<'a>) -> Place<'a> {
    match packet.piece {
        Piece::Bytes(bytes) => Place::of(bytes),
        Piece::Shared(place) => place,
    }
}

fn not_taken(error: &SendError, now: Instant, packet: &Packet<'_>) -> NotTaken {
    match error {
        SendError::Full | SendError::QueueFull => {
            NotTaken::WouldBlock { until: Some(now.saturating_add(RETRY)) }
        }
        SendError::TooLong { mtu, .. } => {
            let bytes = u32::try_from(packet.len()).unwrap_or(u32::MAX);
            NotTaken::TooLarge { bytes, mtu: mtu.unwrap_or(0) }
        }
        SendError::AddressGone | SendError::NoDestination => NotTaken::Gone,
        _ => NotTaken::Unreachable,
    }
}

/// A transport of a server.
#[derive(Debug)]
pub enum Wire {
    /// The network.
    Udp(Udp),
    /// An emulated link that drops all packets: for tests and experiments.
    Null(NullDevice<()>),
}

impl Transport for Wire {
    type To = u32;

    fn hand_over(&mut self, now: Instant, to: u32, packets: &[Packet<'_>]) -> HandedOver {
        match self {
            Self::Udp(udp) => udp.hand_over(now, to, packets),
            Self::Null(null) => null.hand_over(now, to, packets),
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_linux::net::{Inbox, Readiness, Setup};

    use super::*;

    fn pair(trains: bool) -> (Udp, UdpSocket) {
        let at = "127.0.0.1:0".parse().expect("an address");
        let receiver = UdpSocket::open(&Setup::at(at)).expect("a socket");
        let here = receiver.local_address().expect("an address");
        let mut udp = Udp::new(2, trains);
        let sender = UdpSocket::open(&Setup::to(here)).expect("a socket");
        assert!(udp.attach(1, sender.into()).is_none());
        (udp, receiver)
    }

    #[test]
    fn a_block_arrives_packet_by_packet_with_trains_and_without() {
        let heads: Vec<[u8; 4]> = (0..150_u8).map(|n| [n; 4]).collect();
        let body = [7; 100];
        for trains in [true, false] {
            let (mut udp, receiver) = pair(trains);
            receiver.set_receive_buffer(1 << 20).expect("a buffer");
            let mut packets: Vec<Packet<'_>> =
                heads.iter().map(|head| Packet { head, piece: Piece::Bytes(&body) }).collect();
            // The last one is shorter.
            packets[149].piece = Piece::Bytes(&body[..10]);
            let all = HandedOver { packets: 150, stopped: None };
            assert_eq!(udp.hand_over(Instant::ZERO, 1, &packets), all);
            let mut got = Vec::new();
            let mut inbox = Inbox::new(64, 2_048);
            while got.len() < 150 {
                let soon = punctual_linux::clock::now() + Duration::from_secs(10);
                assert!(receiver.wait(Readiness::Readable, soon).expect("a wait"), "{}", got.len());
                receiver.receive(&mut inbox).expect("received");
                got.extend(inbox.datagrams().map(|one| (one.bytes[0], one.bytes.len())));
            }
            let sent: Vec<_> = packets.iter().map(|one| (one.head[0], one.len())).collect();
            assert_eq!(got, sent, "trains: {trains}");
        }
    }

    #[test]
    fn a_packet_that_cannot_be_sent_is_refused_with_the_reason() {
        let (mut udp, _receiver) = pair(true);
        let large = vec![0; 70_000];
        let packet = Packet { head: &[], piece: Piece::Bytes(&large) };
        let taken = udp.hand_over(Instant::ZERO, 1, &[packet]);
        assert!(
            matches!(taken.stopped, Some(NotTaken::TooLarge { bytes: 70_000, .. })),
            "{taken:?}"
        );
        let gone = HandedOver { packets: 0, stopped: Some(NotTaken::Gone) };
        for channel in [0, 2] {
            assert_eq!(udp.hand_over(Instant::ZERO, channel, &[packet]), gone);
        }
        assert!(udp.detach(1).is_some() && udp.detach(1).is_none());
    }
}
