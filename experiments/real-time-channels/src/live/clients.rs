//! Clients of a sender: their rings, and a thread that keeps them full.

use std::sync::atomic::{AtomicBool, Ordering};

use punctual_channel::rings::{Made, Puts, Side, Takes, both, map};
use punctual_linux::clock;
use punctual_linux::memfd::Readable;
use punctual_model::Duration;
use punctual_ring::frames::{Geometry, Wake};

use super::MESSAGE;

/// The number of senders that always have a message, as in the paper.
pub(super) const SENDERS: u32 = 4;

/// The number of messages that a ring holds.
const SLOTS: u32 = 8;

pub(super) fn geometry() -> Geometry {
    Geometry::new(SLOTS, MESSAGE).expect("valid")
}

pub(super) struct Client {
    side: Side<Puts>,
}

impl Client {
    pub(super) fn new() -> (Self, Side<Takes>) {
        let (side, server) = both::<Takes>(geometry()).expect("memory");
        (Self { side }, server)
    }

    /// Makes a client whose messages another thread can read, too.
    pub(super) fn seen_twice() -> (Self, Side<Takes>, Readable) {
        let (made, passed) = Made::<Takes>::new(geometry(), 0).expect("memory");
        let frames = passed.frames.try_clone().expect("a descriptor");
        let side = map(passed, geometry(), 0).expect("as made");
        made.seal().expect("ours");
        let seen = Readable::of(frames, geometry().producer_bytes()).expect("as made");
        (Self { side }, made.freeze().expect("as made"), seen)
    }

    /// Publishes a message if there is room. Returns whether there was.
    pub(super) fn put(&mut self) -> bool {
        let Side { end: puts, doorbell, .. } = &mut self.side;
        let Ok(Some(slot)) = puts.claim() else { return false };
        slot.push(MESSAGE as usize, 0);
        if puts.publish_with(|| clock::now().as_nanos()) == Wake::Ring {
            let _ = doorbell.ring();
        }
        true
    }
}

/// Keeps all rings full until `stop` is set.
pub(super) fn keep_full(mut clients: Vec<Client>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let mut any = false;
        for client in &mut clients {
            while client.put() {
                any = true;
            }
        }
        if !any {
            clock::sleep(Duration::from_micros(50));
        }
    }
}
