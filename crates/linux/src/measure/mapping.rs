//! Fresh pages, and memory shared with a child.
#![allow(unsafe_code)]

use std::ptr::{NonNull, null_mut};
use std::slice;
use std::sync::atomic::AtomicU64;

use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::MeasureError;

/// Anonymous memory of 8-byte words, all zero, unmapped on drop.
pub(super) struct Mapping {
    start: NonNull<AtomicU64>,
    words: usize,
}

impl Mapping {
    /// Maps pages that are absent until they are touched, one by one.
    pub(super) fn of_small_pages(words: usize) -> Result<Self, MeasureError> {
        let mapping = Self::new(words, MapFlags::PRIVATE)?;
        // SAFETY: this is exactly the range that `new` mapped, and the advice changes no contents.
        let advised = unsafe {
            rustix::mm::madvise(mapping.start.as_ptr().cast(), words * 8, Advice::LinuxNoHugepage)
        };
        // EINVAL: the kernel has no huge pages to avoid.
        let _ = advised;
        Ok(mapping)
    }

    /// Maps memory shared with the children that this process makes later.
    pub(super) fn shared(words: usize) -> Result<Self, MeasureError> {
        Self::new(words, MapFlags::SHARED)
    }

    fn new(words: usize, flags: MapFlags) -> Result<Self, MeasureError> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so no memory in use is replaced.
        let start = unsafe { rustix::mm::mmap_anonymous(null_mut(), words * 8, access, flags) };
        let start = start.map_err(MeasureError::NoMemory)?;
        // mmap(2) never returns null without MAP_FIXED.
        let start =
            NonNull::new(start.cast()).ok_or(MeasureError::NoMemory(rustix::io::Errno::NOMEM))?;
        Ok(Self { start, words })
    }

    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: `words` words from a page-aligned start are mapped readable and writable until
        // drop, any bytes are a valid `AtomicU64`, and this process accesses them as nothing else.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is exactly what `new` mapped, and no reference to it outlives `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.words * 8) };
        debug_assert!(unmapped.is_ok());
    }
}
