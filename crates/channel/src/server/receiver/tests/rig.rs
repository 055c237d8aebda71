//! A receiver, its clients and their senders in one thread.

use std::net::SocketAddr;
use std::num::NonZeroU16;

use punctual_linux::clock;
use punctual_linux::memfd::Writable;
use punctual_linux::net::{Outgoing, Place, Setup, UdpSocket, WallOffset};
use punctual_linux::pass::Bell;
use punctual_model::channel::{Framing, LinearBounded, Traffic};
use punctual_model::{Duration, Instant};
use punctual_ring::frames::Geometry;

use crate::account::ReceivedSnapshot;
use crate::fragment::Fragments;
use crate::rings;
use crate::rings::{Made, Puts, Side, Takes};
use crate::server::receiver::{Channel, Ended, Opening, Receiver, Terms, Turn};
use crate::server::ringer::Ringers;

/// The longest message.
pub(super) const MAX: u32 = 1_000;

/// The bytes of a fragment.
const FRAGMENT: u16 = 400;

/// The number in headers.
const NUMBER: u32 = 9;

/// A receiver, and the channels that had turns, in their order.
pub(super) struct Rig {
    pub(super) receiver: Receiver,
    pub(super) turns: Vec<u64>,
    pub(super) ended: Vec<(u64, Box<Channel>, Ended)>,
}

/// A client, and its sender.
pub(super) struct Client {
    pub(super) id: u64,
    pub(super) takes: Takes,
    /// Its own page, to be corrupted by tests.
    pub(super) page: Writable,
    pub(super) bell: Bell,
    pub(super) sender: UdpSocket,
    pub(super) listens: SocketAddr,
}

pub(super) fn terms(framing: Framing, delay_bound: Option<Duration>) -> Terms {
    let spacing = Duration::from_micros(10);
    Terms {
        traffic: Traffic::Bounded(LinearBounded::new(1, MAX, spacing, 1_000).expect("valid")),
        delay_bound,
        framing,
        number: NUMBER,
        least_fragment: NonZeroU16::new(100).expect("not zero"),
        packet_bytes: FRAGMENT.into(),
        unevenness: Duration::from_millis(5),
        shared_clock: true,
    }
}

pub(super) fn promised(framing: Framing) -> Terms {
    terms(framing, Some(Duration::from_millis(5)))
}

/// Returns terms as [`promised`], but one message each `spacing`, and bursts of `burst`.
pub(super) fn spaced(framing: Framing, spacing: Duration, burst: u32) -> Terms {
    let arrivals = LinearBounded::new(1, MAX, spacing, burst).expect("valid");
    Terms { traffic: Traffic::Bounded(arrivals), ..promised(framing) }
}

impl Rig {
    pub(super) fn new() -> Self {
        let mut receiver = Receiver::new().expect("descriptors");
        receiver.set_wall(WallOffset::measure());
        Self { receiver, turns: Vec::new(), ended: Vec::new() }
    }

    /// Opens a channel with a ring of `slots` slots.
    pub(super) fn open(&mut self, id: u64, terms: Terms, slots: u32) -> Client {
        let geometry = Geometry::new(slots, MAX).expect("valid");
        let bytes = Geometry::CONSUMER_BYTES;
        let (made, passed) = Made::<Puts>::new(geometry, 0).expect("memory");
        let page = passed.page.try_clone().expect("descriptors");
        let page = Writable::of(page, bytes).expect("the client's to write");
        let client: Side<Takes> = rings::map(passed, geometry, 0).expect("as made");
        made.seal().expect("ours");
        let server = made.freeze().expect("as made");
        let socket = Setup::at("127.0.0.1:0".parse().expect("valid"));
        let socket = UdpSocket::open(&socket).expect("opens");
        let listens = socket.local_address().expect("bound");
        let sender = UdpSocket::open(&Setup::to(listens)).expect("opens");
        let bell = Ringers::default().enter(0, server.bell).expect("a thread");
        let opening = Opening::new(terms, socket, server.end, bell).expect("fits");
        self.receiver.open(clock::now(), id, opening).expect("opens");
        Client { id, takes: client.end, page, bell: client.bell, sender, listens }
    }

    /// Turns until there is nothing to do. Returns until when.
    pub(super) fn turn(&mut self) -> Option<Instant> {
        self.receiver.wait(Instant::ZERO, clock::now);
        loop {
            match self.receiver.turn(clock::now()) {
                Turn::Served(id) => self.turns.push(id),
                Turn::Ended(id, channel, ended) => self.ended.push((id, channel, ended)),
                Turn::Idle(until) => return until,
            }
        }
    }

    /// Turns until `holds` returns true, for twenty seconds at most.
    pub(super) fn until(&mut self, mut holds: impl FnMut(&mut Self) -> bool) {
        let until = clock::now() + Duration::from_secs(20);
        while !holds(self) {
            assert!(clock::now() < until, "it does not hold: {:#?}", self.channels());
            self.turn();
            clock::sleep(Duration::from_micros(200));
        }
    }

    /// Returns the account and the early discarding of each channel, for failures.
    fn channels(&self) -> Vec<impl std::fmt::Debug> {
        let channels = (0..16).filter_map(|id| self.receiver.get(id));
        channels.map(|one| (one.id, one.account().snapshot(), &one.early)).collect()
    }

    pub(super) fn account(&self, client: &Client) -> ReceivedSnapshot {
        self.receiver.get(client.id).expect("open").account().snapshot()
    }

    /// Turns until the account includes all that was sent.
    pub(super) fn settle(&mut self, client: &Client, sent: u64) -> ReceivedSnapshot {
        self.until(|rig| {
            let account = rig.account(client);
            account.received + account.losses.total() + u64::from(account.open) >= sent
        });
        self.account(client)
    }
}

/// Returns the content of a message.
pub(super) fn content(message: u64, length: u32) -> Vec<u8> {
    (0..length).map(|at| (message as u8).wrapping_mul(31).wrapping_add(at as u8)).collect()
}

impl Client {
    /// Sends a datagram to it.
    pub(super) fn send(&self, bytes: &[u8]) {
        self.sender.send(&Outgoing::new(&[Place::of(bytes)])).expect("sent");
    }

    /// Returns the datagrams of a message in fragments of [`FRAGMENT`] bytes.
    pub(super) fn fragments(message: u64, length: u32) -> Vec<Vec<u8>> {
        let fragment_bytes = NonZeroU16::new(FRAGMENT).expect("not zero");
        let bytes = content(message, length);
        let cut = Fragments { fragment_bytes, channel: NUMBER, message, length };
        cut.within(0..length, Some(clock::now()))
            .map(|piece| {
                let of = piece.bytes.start as usize..piece.bytes.end as usize;
                [&piece.header.to_bytes()[..], &bytes[of]].concat()
            })
            .collect()
    }

    /// Sends a message in fragments.
    pub(super) fn send_in_fragments(&self, message: u64, length: u32) {
        Self::fragments(message, length).iter().for_each(|datagram| self.send(datagram));
    }

    /// Takes everything in its ring: bytes and stamps.
    pub(super) fn take(&mut self) -> Vec<(Vec<u8>, Instant)> {
        let mut all = Vec::new();
        while let Some(frame) = self.takes.take().expect("sound") {
            let mut bytes = vec![0; frame.len()];
            frame.read(0, &mut bytes);
            all.push((bytes, Instant::from_nanos(frame.user())));
        }
        let _ = self.takes.release(all.len() as u64);
        all
    }
}
