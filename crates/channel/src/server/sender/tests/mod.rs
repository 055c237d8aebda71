//! Tests rings, an egress scheduler and an emulated link in virtual time.

mod admitted;
mod carrying;
mod contracts;
mod credits;
mod judged;
mod random;
mod room;

use std::cell::Cell;

use punctual_linux::pass::{Bell, WaitOutcome};
use punctual_model::channel::{LinearBounded, Link, Packetisation, TooEarly};
use punctual_model::{Duration, Rank};
use punctual_policy::egress::Promise;
use punctual_policy::queues::ServiceOrder;
use punctual_ring::frames::{Geometry, Rest, Wake};

use super::*;
use crate::account::{Recorder, Snapshot, Verdict};
use crate::rings::{Puts, Side, Takes, both};
use crate::server::ringer::Ringers;
use crate::transport::{FarEnd, Fault, Faulty, HandedOver, NotTaken, NullDevice, Packet};

/// The publication time that a client reports if it does not want to seem late: it counts as the
/// time at which the message was seen.
const HONEST: u64 = u64::MAX;

fn ns(n: u64) -> Instant {
    Instant::from_nanos(n)
}

/// For each packet: when it had left, its channel, and its bytes.
#[derive(Debug, Default)]
struct Log(Vec<(u64, u32, usize)>);

impl FarEnd<u32> for Log {
    fn left(&mut self, at: Instant, to: u32, packet: &Packet<'_>) {
        self.0.push((at.as_nanos(), to, packet.len()));
    }
}

type Script = fn(Instant) -> Fault;

/// Returns a link of a nanosecond a byte; packets of 100 bytes, two to a block.
fn link() -> (Link, Packetisation) {
    let link = Link::new(Duration::ZERO, 1).expect("valid");
    (link, Packetisation::new(100, 2).expect("valid"))
}

fn sender(room: u32, script: Script) -> Sender<Faulty<NullDevice<Log>, Script>> {
    let (link, cut) = link();
    let egress = EgressScheduler::new(link, cut, ServiceOrder::Deadline, room);
    let device = NullDevice::new(link, 200, Duration::from_nanos(1_000), Log::default());
    Sender::new(egress, cut, room, Faulty::new(device, script))
}

fn no_fault(_: Instant) -> Fault {
    Fault::None
}

fn terms(spacing: u64, burst: u32, delay_bound: u64, too_early: TooEarly) -> Terms {
    let spacing = Duration::from_nanos(spacing);
    Terms {
        arrivals: LinearBounded::new(1, 1_000, spacing, burst).expect("valid"),
        promise: Promise::RealTime {
            rank: Rank(0),
            delay_bound: Duration::from_nanos(delay_bound),
        },
        too_early,
    }
}

/// A client that shares a ring with the sender, of eight messages by default.
struct Client {
    puts: Puts,
    bell: Bell,
    account: std::sync::Arc<crate::account::Account>,
}

impl Client {
    fn new(terms: Terms, framing: Framing) -> (Self, Box<Channel>) {
        Self::with_slots(8, terms, framing)
    }

    fn with_slots(slots: u32, terms: Terms, framing: Framing) -> (Self, Box<Channel>) {
        let geometry = Geometry::new(slots, 1_000).expect("valid");
        let (client, server) = both::<Takes>(geometry).expect("memory");
        let Side { end: puts, bell, .. } = client;
        let bell_of = |bell| Ringers::default().enter(0, bell).expect("a thread");
        let recorder = Recorder::new(promised(terms));
        let account = std::sync::Arc::clone(recorder.account());
        let channel = Channel::new(Opening {
            terms,
            framing,
            number: 7,
            takes: server.end,
            bell: bell_of(server.bell),
            doorbell: server.doorbell,
            recorder,
            believed_from: Instant::ZERO,
        });
        (Self { puts, bell, account }, channel)
    }

    /// Publishes a message. Returns whether the server is to be woken.
    fn put(&mut self, bytes: usize) -> Wake {
        self.puts.claim().expect("sound").expect("room").push(bytes, HONEST);
        self.puts.publish()
    }

    fn account(&self) -> Snapshot {
        self.account.snapshot()
    }
}

/// Turns until nothing is left to do, or `until`.
fn run<T: Transport<To = u32>>(sender: &mut Sender<T>, now: &Cell<u64>, until: u64) {
    loop {
        match sender.turn(ns(now.get()), || ns(now.get())) {
            Turn::Again => {}
            Turn::At(at) if at <= ns(until) => now.set(at.as_nanos()),
            Turn::At(_) | Turn::Idle => return,
        }
    }
}
