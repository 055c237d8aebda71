//! The shared memory, as words.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Memory that a queue reads: words that another process may change at any time.
///
/// It is always accessed as whole words of 8 bytes. A read that races with a write of another size,
/// or that is not atomic, would be undefined behaviour (`std::sync::atomic`, "Memory model for
/// atomic accesses"), and so would be a `&[u8]` of bytes that another process changes.
///
/// The trait is implemented for every type that can be viewed as `[AtomicU64]`, which is for memory
/// that may be written as well: in tests, and for a process's own side. Memory that is mapped
/// read-only needs an implementation that only loads, with relaxed ordering: other atomic
/// operations may fault there.
///
/// ```
/// use punctual_ring::frames::Words;
/// use std::sync::atomic::AtomicU64;
///
/// let memory: Vec<AtomicU64> = (0..4).map(AtomicU64::new).collect();
/// assert_eq!((memory.count(), memory.load(3)), (4, 3));
/// ```
pub trait Words {
    /// Returns the number of words, which is the same at every call.
    fn count(&self) -> usize;

    /// Reads the word `at`, relaxed.
    ///
    /// # Panics
    /// If there is no such word.
    fn load(&self, at: usize) -> u64;

    /// Reads as many words as `into` has, from the word `at` on.
    ///
    /// # Panics
    /// If there are not as many.
    fn load_all(&self, at: usize, into: &mut [u64]) {
        for (n, word) in into.iter_mut().enumerate() {
            *word = self.load(at + n);
        }
    }

    /// Issues an acquire fence: later reads see everything that was written before the values
    /// already read were released.
    fn acquire(&self) {
        fence(Ordering::Acquire);
    }

    /// Issues a sequentially consistent fence. Of two threads that each write, call this and then
    /// read, at least one sees what the other wrote.
    fn settle(&self) {
        fence(Ordering::SeqCst);
    }
}

/// Memory that a queue writes: its own side.
pub trait OwnWords: Words {
    /// Writes the word `at`, relaxed.
    ///
    /// # Panics
    /// If there is no such word.
    fn store(&self, at: usize, value: u64);

    /// Writes the word `at`, after everything that was read and written before (release).
    ///
    /// # Panics
    /// If there is no such word.
    fn publish(&self, at: usize, value: u64);
}

/// Memory whose address can be passed to the kernel.
pub trait Addressed: Words {
    /// Returns the address of the word `at`, for the kernel or for atomic access to whole words:
    /// see [`Words`].
    ///
    /// # Panics
    /// If there is no such word.
    fn address(&self, at: usize) -> *const u8;
}

impl<T: AsRef<[AtomicU64]>> Words for T {
    #[inline]
    fn count(&self) -> usize {
        self.as_ref().len()
    }

    #[inline]
    fn load(&self, at: usize) -> u64 {
        self.as_ref()[at].load(Ordering::Relaxed)
    }

    #[inline]
    fn load_all(&self, at: usize, into: &mut [u64]) {
        // Check the bounds once for all of them.
        let words = &self.as_ref()[at..][..into.len()];
        for (to, from) in into.iter_mut().zip(words) {
            *to = from.load(Ordering::Relaxed);
        }
    }
}

impl<T: AsRef<[AtomicU64]>> OwnWords for T {
    #[inline]
    fn store(&self, at: usize, value: u64) {
        self.as_ref()[at].store(value, Ordering::Relaxed);
    }

    #[inline]
    fn publish(&self, at: usize, value: u64) {
        self.as_ref()[at].store(value, Ordering::Release);
    }
}

impl<T: AsRef<[AtomicU64]>> Addressed for T {
    #[inline]
    fn address(&self, at: usize) -> *const u8 {
        self.as_ref()[at..].as_ptr().cast()
    }
}
