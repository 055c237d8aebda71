//! The other side's memory.

use punctual_linux::memfd::Readable;
use punctual_ring::frames::{Addressed, Words};

/// Memory that the other side writes, mapped only for reading.
#[derive(Debug)]
pub struct View(pub Readable);

impl Words for View {
    #[inline]
    fn count(&self) -> usize {
        self.0.count()
    }

    #[inline]
    fn load(&self, at: usize) -> u64 {
        self.0.load(at)
    }

    #[inline]
    fn load_all(&self, at: usize, into: &mut [u64]) {
        self.0.load_all(at, into);
    }
}

impl Addressed for View {
    #[inline]
    fn address(&self, at: usize) -> *const u8 {
        self.0.address(at)
    }
}
