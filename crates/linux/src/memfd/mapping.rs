//! A piece of shared memory in this process's address space.

use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// The number of words in the smallest page of any architecture.
const WORDS_OF_A_PAGE: usize = 4096 / size_of::<AtomicU64>();

/// Mapped memory; dropping it unmaps it.
#[derive(Debug)]
pub(super) struct Mapping {
    at: NonNull<AtomicU64>,
    bytes: usize,
}

// SAFETY: the mapping is accessed only as atomics, and only drop unmaps it.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`; atomics may be accessed from several threads at once.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps all `bytes` of the file, which must be that long and sealed against shrinking, and
    /// faults in every page.
    pub(super) fn new(file: &OwnedFd, bytes: usize, writable: bool) -> Result<Self, Errno> {
        let mapping = Self::reserve(file, bytes, writable)?;
        mapping.populate(writable)?;
        Ok(mapping)
    }

    /// Does the same without faulting in the pages.
    pub(super) fn reserve(file: &OwnedFd, bytes: usize, writable: bool) -> Result<Self, Errno> {
        let protection =
            if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: the kernel chooses the address, so the mapping overlaps nothing in use.
        let at = unsafe {
            rustix::mm::mmap(ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0)?
        };
        // The kernel maps nothing at address zero without MAP_FIXED.
        let at = NonNull::new(at.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { at, bytes })
    }

    /// Faults in every page, for writing if the mapping is writable.
    pub(super) fn populate(&self, writable: bool) -> Result<(), Errno> {
        let advice = if writable { Advice::LinuxPopulateWrite } else { Advice::LinuxPopulateRead };
        loop {
            // SAFETY: the pages are mapped until drop, and faulting them in changes nothing in
            // them.
            match unsafe { rustix::mm::madvise(self.at.as_ptr().cast(), self.bytes, advice) } {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                // Before Linux 5.14.
                Err(Errno::INVAL) => break,
                Err(errno) => return Err(errno),
            }
        }
        // SAFETY: if the mapping is not writable, the words are only loaded, relaxed.
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

    /// Returns the start of the mapping, and every `run` bytes after it.
    pub(super) fn pages_at(&self, run: usize) -> impl Iterator<Item = *const u8> {
        let first = self.at.as_ptr().cast_const().cast::<u8>();
        // Never beyond the end of the mapping.
        (0..self.bytes).step_by(run).map(move |at| first.wrapping_add(at))
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.bytes / size_of::<AtomicU64>()
    }

    /// Returns the words.
    ///
    /// # Safety
    /// If the memory was not mapped for writing, the words may only be loaded, relaxed.
    #[inline]
    pub(super) unsafe fn words(&self) -> &[AtomicU64] {
        // SAFETY: a mapping begins at a page boundary. `bytes` of it stay mapped as long as `self`
        // is borrowed. The file is sealed against shrinking, so each page exists. Any bytes are
        // valid words, and this process accesses them as nothing else.
        unsafe { slice::from_raw_parts(self.at.as_ptr(), self.count()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `reserve` mapped this address with the same size, and `self` is not used again.
        let _ = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}
