//! A piece of shared memory in this process's address space.

use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::AtomicU64;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

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
        let protection =
            if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping where the kernel likes; nothing of ours lies there.
        let at = unsafe { rustix::mm::mmap(ptr::null_mut(), bytes, protection, flags, file, 0)? };
        // The kernel puts nothing at address zero unless told to (MAP_FIXED).
        let at = NonNull::new(at.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { at, bytes })
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
