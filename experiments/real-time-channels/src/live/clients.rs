//! Clients of a sender: their rings, and a thread that keeps them full.

use std::sync::atomic::{AtomicBool, Ordering};

use punctual_channel::rings::{Passed, Puts, client};
use punctual_linux::clock;
use punctual_linux::pass::Bell;
use punctual_model::Duration;
use punctual_ring::frames::{Geometry, Wake};

use super::MESSAGE;

/// Senders that always have a message, as in the paper.
pub(super) const SENDERS: u32 = 4;

/// Messages that a ring holds.
const SLOTS: u32 = 8;

pub(super) fn geometry() -> Geometry {
    Geometry::new(SLOTS, MESSAGE).expect("valid")
}

pub(super) struct Client {
    puts: Puts,
    bell: Bell,
}

impl Client {
    pub(super) fn new() -> (Self, Passed) {
        let (puts, memory) = client::sending(geometry()).expect("memory");
        let (bell, passed) = memory.pass().expect("descriptors");
        (Self { puts, bell }, passed)
    }

    /// Publishes a message, if there is room. Whether there was.
    pub(super) fn put(&mut self) -> bool {
        let Ok(Some(slot)) = self.puts.claim() else { return false };
        slot.push(MESSAGE as usize, 0);
        if self.puts.publish() == Wake::Ring {
            let _ = self.bell.ring();
        }
        true
    }
}

/// Keeps all rings full until told to stop.
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
