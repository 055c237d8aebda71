//! A piece of shared memory in this process's address space.

use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Of the smallest page that there is.
const WORDS_OF_A_PAGE: usize = 4096 / size_of::<AtomicU64>();

/// Until it is dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    at: NonNull<AtomicU64>,
    bytes: usize,
}

// SAFETY: it is only seen as atomics, and is unmapped only by drop.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps all `bytes` of the file, which is as long and can become no shorter, and has every page
    /// put in place.
    pub(super) fn new(file: &OwnedFd, bytes: usize, writable: bool) -> Result<Self, Errno> {
        let mapping = Self::reserve(file, bytes, writable)?;
        mapping.populate(writable)?;
        Ok(mapping)
    }

    /// The same, and leaves the pages for later.
    pub(super) fn reserve(file: &OwnedFd, bytes: usize, writable: bool) -> Result<Self, Errno> {
        let protection =
            if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: a new mapping where the kernel likes; nothing of ours lies there.
        let at = unsafe {
            rustix::mm::mmap(ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0)?
        };
        // The kernel puts nothing at address zero unless told to (MAP_FIXED).
        let at = NonNull::new(at.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { at, bytes })
    }

    /// Puts every page in place, for writing if it is mapped for that.
    pub(super) fn populate(&self, writable: bool) -> Result<(), Errno> {
        let advice = if writable { Advice::LinuxPopulateWrite } else { Advice::LinuxPopulateRead };
        loop {
            // SAFETY: pages that are mapped until drop are put in place; nothing in them changes.
            match unsafe { rustix::mm::madvise(self.at.as_ptr().cast(), self.bytes, advice) } {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                // Before Linux 5.14.
                Err(Errno::INVAL) => break,
                Err(errno) => return Err(errno),
            }
        }
        // SAFETY: if it was not mapped for writing it is only read, relaxed.
        let words = unsafe { self.words() };
        for word in words.iter().step_by(WORDS_OF_A_PAGE) {
            if writable {
                word.fetch_or(0, Ordering::Relaxed);
            } else {
                std::hint::black_box(word.load(Ordering::Relaxed));
            }
        }
        Ok(())
    }

    /// Returns where it begins, and where after each `run` bytes.
    pub(super) fn pages_at(&self, run: usize) -> impl Iterator<Item = *const u8> {
        let first = self.at.as_ptr().cast_const().cast::<u8>();
        // Never beyond the end of the mapping.
        (0..self.bytes).step_by(run).map(move |at| first.wrapping_add(at))
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.bytes / size_of::<AtomicU64>()
    }

    /// # Safety
    /// If it was not mapped for writing, the words may be loaded, relaxed, and nothing else.
    #[inline]
    pub(super) unsafe fn words(&self) -> &[AtomicU64] {
        // SAFETY: a mapping begins at a page; `bytes` of it are mapped until drop, which borrows
        // rule out; the file is sealed against becoming shorter, so that each page is there; any
        // bytes are valid words; and nobody in this process sees them as anything else.
        unsafe { slice::from_raw_parts(self.at.as_ptr(), self.count()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: what `new` mapped, with the same size; `self` is not used again.
        let _ = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}
