//! LAPM over lossy lines, with a model that knows what must arrive: every byte once and in order,
//! or a clear end.

mod bits;
mod hostile;
mod link;
mod rules;
mod spandsp;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The bytes that one end has for the other: the model of what must arrive.
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

    /// Checks what came: the very next bytes of those written, never one more.
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
