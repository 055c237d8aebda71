//! Tests both ends against the server's half of the queue.

mod polling;
mod receiving;
mod rejoining;
mod sending;
mod threads;

use punctual_linux::clock;
use punctual_linux::pass::{Bell, Doorbell};
use punctual_model::{Duration, Instant};
use punctual_ring::frames::{Geometry, Rest, Wake};
use rustix::event::{PollFd, PollFlags, poll};

use super::{Attach, Receiving, Sending};
use crate::rings::{End, Made, Passed, Puts, Side, Takes};

/// Returns a time that is late enough on any machine.
fn patience() -> Instant {
    clock::now() + Duration::from_millis(20_000)
}

fn geometry() -> Geometry {
    Geometry::new(4, 100).expect("valid")
}

/// Returns the content of message `n`: every length, and no two neighbours the same.
fn content(n: u64, geometry: Geometry) -> Vec<u8> {
    let length = n * 7 % (u64::from(geometry.max_message()) + 1);
    (0..length).map(|at| (n + at) as u8).collect()
}

/// Makes a queue and has a client map it by `meets`. Returns the client's result and the server's
/// side.
fn met<E: End, C>(geometry: Geometry, first: u64, meets: impl FnOnce(Passed) -> C) -> (C, Side<E>) {
    let (made, passed) = Made::<E>::new(geometry, first).expect("memory");
    let client = meets(passed);
    made.seal().expect("ours");
    (client, made.freeze().expect("as made"))
}

/// Returns a channel that sends, and its server.
fn sends(geometry: Geometry) -> (Sending, Taker) {
    let map = |passed| Sending::map(passed, geometry).expect("as made");
    let (sending, side) = met(geometry, 0, map);
    (sending, Taker::of(side))
}

/// Returns a channel that receives, and its server.
fn receives(geometry: Geometry) -> (Receiving, Putter) {
    let map = |passed| Receiving::map(passed, geometry).expect("as made");
    let (receiving, side) = met(geometry, 0, map);
    (receiving, Putter::of(side))
}

/// Rejoins an end with a next server, and returns that server's side.
fn rejoined<E: End>(end: &mut impl Attach, geometry: Geometry) -> Side<E> {
    let first = end.next_number().expect("sound");
    met(geometry, first, |passed| end.rejoin(passed, first).expect("as made")).1
}

/// Waits for the client's ring; returns false if none comes within the time.
fn is_rung(doorbell: &Doorbell, until: Instant) -> bool {
    let left = punctual_linux::clock::timespec(until.saturating_since(clock::now()).as_nanos());
    let mut fds = [PollFd::new(doorbell, PollFlags::IN)];
    let rung = poll(&mut fds, Some(&left)).expect("an eventfd") == 1;
    if rung {
        // A real server never reads it: it uses edge-triggered notification.
        rustix::io::read(doorbell, &mut [0; 8]).expect("rung");
    }
    rung
}

/// The server of a channel that sends.
struct Taker {
    takes: Takes,
    bell: Bell,
    doorbell: Doorbell,
}

impl Taker {
    fn of(side: Side<Takes>) -> Self {
        Self { takes: side.end, bell: side.bell, doorbell: side.doorbell }
    }

    /// Takes the next message, if it is there.
    fn take(&mut self) -> Option<Vec<u8>> {
        let frame = self.takes.take().expect("honest")?;
        assert!(frame.user() <= clock::now().as_nanos(), "published before it is seen");
        let mut bytes = vec![0; frame.len()];
        frame.read(0, &mut bytes);
        Some(bytes)
    }

    fn release(&mut self, count: u64) {
        if self.takes.release(count) == Wake::Ring {
            self.bell.ring().expect("the client lives");
        }
    }

    /// Waits for the next message and releases it.
    fn next(&mut self) -> Vec<u8> {
        loop {
            if let Some(message) = self.take() {
                self.release(1);
                return message;
            }
            if self.takes.rest().expect("honest") == Rest::Sleep {
                assert!(is_rung(&self.doorbell, patience()), "a wake-up was lost");
                self.takes.rise();
            }
        }
    }
}

/// The server of a channel that receives.
struct Putter {
    puts: Puts,
    bell: Bell,
    doorbell: Doorbell,
}

impl Putter {
    fn of(side: Side<Puts>) -> Self {
        Self { puts: side.end, bell: side.bell, doorbell: side.doorbell }
    }

    /// Puts a message in; returns whether there was room.
    fn put(&mut self, message: &[u8], arrived: u64) -> bool {
        let Some(mut slot) = self.puts.claim().expect("honest") else { return false };
        slot.write(0, message);
        slot.push(message.len(), arrived);
        if self.puts.publish() == Wake::Ring {
            self.bell.ring().expect("the client lives");
        }
        true
    }

    /// Waits for room and puts a message in.
    fn put_waiting(&mut self, message: &[u8], arrived: u64) {
        while !self.put(message, arrived) {
            if self.puts.rest().expect("honest") == Rest::Sleep {
                assert!(is_rung(&self.doorbell, patience()), "a wake-up was lost");
                self.puts.rise();
            }
        }
    }
}
