//! Memory mapped into this process (mmap(2)), as words that are accessed atomically.
#![allow(unsafe_code)]

use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// The number of words in the smallest page of any architecture.
const WORDS_OF_A_PAGE: usize = 4096 / size_of::<AtomicU64>();

/// Mapped memory; dropping it unmaps it.
///
/// Other processes, the kernel and BPF programs may change it at any time, so this process accesses
/// it only as atomics.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<AtomicU64>,
    bytes: usize,
}

// SAFETY: the mapping is accessed only as atomics, and only drop unmaps it.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`; atomics may be accessed from several threads at once.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `bytes` of new memory, all zero and writable; with [`MapFlags::SHARED`] it is shared
    /// with the children that this process makes later.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn anonymous(bytes: usize, flags: MapFlags) -> Result<Self, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so no memory in use is replaced.
        let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, access, flags)? };
        Self::at(start.cast(), bytes)
    }

    /// Maps `bytes` of a file from `offset` on, shared with all that map them.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn of(
        file: impl AsFd,
        offset: u64,
        bytes: usize,
        writable: bool,
        flags: MapFlags,
    ) -> Result<Self, Errno> {
        let access = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let flags = flags | MapFlags::SHARED;
        // SAFETY: the kernel chooses the address, so no memory in use is replaced.
        let start =
            unsafe { rustix::mm::mmap(ptr::null_mut(), bytes, access, flags, file, offset)? };
        Self::at(start.cast(), bytes)
    }

    fn at(start: *mut AtomicU64, bytes: usize) -> Result<Self, Errno> {
        // The kernel maps nothing at address zero without MAP_FIXED.
        Ok(Self { start: NonNull::new(start).ok_or(Errno::NOMEM)?, bytes })
    }

    /// Faults in every page, for writing if the mapping is writable.
    ///
    /// # Errors
    /// Those of madvise(2), such as no memory.
    pub(crate) fn populate(&self, writable: bool) -> Result<(), Errno> {
        let advice = if writable { Advice::LinuxPopulateWrite } else { Advice::LinuxPopulateRead };
        loop {
            match self.advise(advice) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                // Before Linux 5.14.
                Err(Errno::INVAL) => break,
                Err(errno) => return Err(errno),
            }
        }
        // SAFETY: if the mapping is not writable, the words are only loaded, relaxed. The pages
        // were there to be faulted in.
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

    /// Makes the kernel use pages of the usual size only, where it has others.
    pub(crate) fn avoid_huge_pages(&self) {
        // EINVAL: the kernel has no huge pages to avoid.
        let _ = self.advise(Advice::LinuxNoHugepage);
    }

    /// Gives advice that changes no contents.
    fn advise(&self, advice: Advice) -> Result<(), Errno> {
        // SAFETY: exactly this range is mapped until drop, and the callers' advice changes nothing
        // in it.
        unsafe { rustix::mm::madvise(self.start.as_ptr().cast(), self.bytes, advice) }
    }

    /// Returns the number of bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of whole words.
    #[inline]
    pub fn count(&self) -> usize {
        self.bytes / size_of::<AtomicU64>()
    }

    /// Returns the first word, which is at the beginning of a page.
    #[inline]
    pub fn start(&self) -> NonNull<AtomicU64> {
        self.start
    }

    /// Returns the words.
    ///
    /// # Safety
    /// Each page must exist as long as the words are borrowed: a file must not become shorter than
    /// the mapping. If the memory was not mapped for writing, the words may only be loaded, relaxed.
    #[inline]
    pub unsafe fn words(&self) -> &[AtomicU64] {
        // SAFETY: a mapping begins at a page boundary. `bytes` of it stay mapped as long as `self`
        // is borrowed, and the caller vouches for its pages. Any bytes are valid words, and this
        // process accesses them as nothing else.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.count()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is exactly what was mapped, and no reference to it outlives `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}
