//! LAPM over lossy lines, checked against a model of the expected bytes: every byte arrives once
//! and in order, or the link ends with a reason.

mod bits;
mod link;
mod rules;
mod spandsp;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The bytes that one end has for the other: the model of the expected data.
struct Stream {
    bytes: Vec<u8>,
    written: usize,
    arrived: usize,
}

impl Stream {
    fn new(seed: u64, len: usize) -> Self {
        let mut bytes = vec![0; len];
        ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
        Self { bytes, written: 0, arrived: 0 }
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    /// Checks received bytes: they must be the next ones of those written, and no more.
    fn came(&mut self, bytes: &[u8], context: &str) {
        let end = self.arrived + bytes.len();
        assert!(end <= self.written, "{context}: more came than was sent");
        assert!(bytes == &self.bytes[self.arrived..end], "{context}: wrong at {}", self.arrived);
        self.arrived = end;
    }

    fn is_complete(&self) -> bool {
        self.arrived == self.bytes.len()
    }
}

fn chance(rng: &mut ChaCha8Rng, per_mille: u32) -> bool {
    rng.next_u32() % 1_000 < per_mille
}
