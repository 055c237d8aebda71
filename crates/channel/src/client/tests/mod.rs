//! Both ends against the server's half of the queue.

mod polling;
mod receiving;
mod rejoining;
mod sending;
mod threads;

use punctual_linux::clock;
use punctual_linux::pass::{Bell, Heard};
use punctual_model::{Duration, Instant};
use punctual_ring::frames::{Geometry, Rest, Wake};

use crate::rings::{Passed, Puts, Takes, server};

/// Long enough for any machine.
fn patience() -> Instant {
    clock::now() + Duration::from_millis(20_000)
}

fn geometry() -> Geometry {
    Geometry::new(4, 100).expect("valid")
}

/// What message `n` holds: every length, and no two neighbours the same.
fn content(n: u64, geometry: Geometry) -> Vec<u8> {
    let length = n * 7 % (u64::from(geometry.max_message()) + 1);
    (0..length).map(|at| (n + at) as u8).collect()
}

/// The server of a channel that sends.
struct Taker {
    takes: Takes,
    bell: Bell,
}

impl Taker {
    fn of(passed: Passed, geometry: Geometry) -> Self {
        let takes = server::takes(passed.frames, passed.page, geometry).expect("as granted");
        Self { takes, bell: Bell::of(passed.bell).expect("a bell") }
    }

    /// The next message, if it is there.
    fn take(&mut self) -> Option<Vec<u8>> {
        let frame = self.takes.take().expect("honest")?;
        assert_eq!(frame.user(), 0, "nothing is asked of a client's word");
        let mut bytes = vec![0; frame.len()];
        frame.read(0, &mut bytes);
        Some(bytes)
    }

    fn release(&mut self, count: u64) {
        if self.takes.release(count) == Wake::Ring {
            self.bell.ring().expect("the client lives");
        }
    }

    /// The next message, waited for and given back; none if the client has ended.
    fn next(&mut self) -> Option<Vec<u8>> {
        let mut ended = false;
        loop {
            if let Some(message) = self.take() {
                self.release(1);
                return Some(message);
            }
            if ended {
                return None;
            }
            if self.takes.rest().expect("honest") == Rest::Sleep {
                let heard = self.bell.wait(patience()).expect("a bell");
                assert_ne!(heard, Heard::Nothing, "a wake-up was lost");
                self.takes.rise();
                ended = heard == Heard::Gone;
            }
        }
    }
}

/// The server of a channel that receives.
struct Putter {
    puts: Puts,
    bell: Bell,
}

impl Putter {
    fn of(passed: Passed, geometry: Geometry) -> Self {
        let puts = server::puts(passed.frames, passed.page, geometry).expect("as granted");
        Self { puts, bell: Bell::of(passed.bell).expect("a bell") }
    }

    /// Whether there was room.
    fn put(&mut self, message: &[u8], arrived: u64) -> bool {
        let Some(mut slot) = self.puts.claim().expect("honest") else { return false };
        slot.write(0, message);
        slot.push(message.len(), arrived);
        if self.puts.publish() == Wake::Ring {
            self.bell.ring().expect("the client lives");
        }
        true
    }

    /// Waits for room.
    fn put_waiting(&mut self, message: &[u8], arrived: u64) {
        while !self.put(message, arrived) {
            if self.puts.rest().expect("honest") == Rest::Sleep {
                let heard = self.bell.wait(patience()).expect("a bell");
                assert_eq!(heard, Heard::Ring, "a wake-up was lost");
                self.puts.rise();
            }
        }
    }
}
