//! References to pages, so that the kernel does not replace them.
//!
//! A process that maps shared memory can have its pages replaced by a huge one (MADV_COLLAPSE,
//! madvise(2), Linux 6.1), and so can the kernel by itself (khugepaged). No seal forbids it, and
//! every other process that has the memory mapped faults then. But the kernel does not move a page
//! that has a reference other than a mapping, and then leaves its whole run in place. So one
//! reference in each run is enough.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use crate::mapping::Mapping;

/// The size of a huge page in bytes, or a divisor of it. A huge page replaces a run of pages that
/// begins at a multiple of its size.
const RUN: usize = 2 << 20;

/// References to the first page of each run of some mappings, held in the buffers of pipes
/// (vmsplice(2)). Closing the pipes releases the pages.
#[derive(Debug, Default)]
pub(super) struct Pins {
    _pipes: Vec<OwnedFd>,
}

impl Pins {
    /// Takes references to pages that are all in place.
    pub(super) fn of(mappings: [&Mapping; 2]) -> Result<Self, Errno> {
        let firsts = mappings.into_iter().flat_map(runs);
        let firsts: Vec<*const u8> = firsts.collect();
        let mut left = firsts.as_slice();
        let mut pipes = Vec::new();
        while !left.is_empty() {
            let before = left.len();
            let (from, to) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
            // Each page of the pipe's size is a buffer, which holds one reference. If the kernel
            // does not grant the size, more pipes follow.
            let _ = fcntl_setpipe_size(&to, before.saturating_mul(rustix::param::page_size()));
            while let Some((first, rest)) = left.split_first() {
                match refer(&to, *first) {
                    Ok(()) => left = rest,
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) if left.len() < before => break,
                    Err(errno) => return Err(errno),
                }
            }
            pipes.push(from);
        }
        Ok(Self { _pipes: pipes })
    }
}

/// Returns the start of each run of a mapping.
fn runs(mapping: &Mapping) -> impl Iterator<Item = *const u8> {
    let first = mapping.start().as_ptr().cast_const().cast::<u8>();
    // Never beyond the end of the mapping.
    (0..mapping.bytes()).step_by(RUN).map(move |at| first.wrapping_add(at))
}

/// Puts a reference to the page of this byte into a pipe.
fn refer(pipe: &OwnedFd, byte: *const u8) -> Result<(), Errno> {
    let byte = libc::iovec { iov_base: byte.cast_mut().cast(), iov_len: 1 };
    // SAFETY: the byte is mapped, and the kernel only takes a reference to its page.
    let taken =
        unsafe { libc::vmsplice(pipe.as_raw_fd(), &raw const byte, 1, libc::SPLICE_F_NONBLOCK) };
    if taken == 1 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Asks the kernel to replace the run of a file that begins at `from` by a huge page, as any
/// process can that may map it. Returns true if it did, and `None` if that cannot be tried here.
pub fn collapses(file: &OwnedFd, from: u64) -> Option<bool> {
    // Twice the size of a run, so that an aligned run lies within.
    let (whole, inaccessible) = (2 * RUN, ProtFlags::empty());
    // SAFETY: the kernel chooses the address, so the mapping overlaps nothing in use.
    let area = unsafe {
        rustix::mm::mmap_anonymous(ptr::null_mut(), whole, inaccessible, MapFlags::PRIVATE)
    };
    let area = NonNull::new(area.ok()?)?;
    let to_border = area.as_ptr().addr().next_multiple_of(RUN) - area.as_ptr().addr();
    // SAFETY: `to_border` is less than `RUN`, and the area is twice as long.
    let at = unsafe { area.as_ptr().byte_add(to_border) };
    let flags = MapFlags::SHARED | MapFlags::FIXED;
    // SAFETY: this replaces a part of the area that was just mapped and holds nothing.
    let mapped = unsafe { rustix::mm::mmap(at, RUN, ProtFlags::READ, flags, file, from) };
    let collapsed = mapped.ok().and_then(|at| {
        // SAFETY: the contents of the pages do not change, and only this function uses this
        // mapping.
        if unsafe { libc::madvise(at, RUN, libc::MADV_COLLAPSE) } == 0 {
            return Some(true);
        }
        // ENOMEM means that no huge page was available.
        (std::io::Error::last_os_error().raw_os_error() != Some(libc::ENOMEM)).then_some(false)
    });
    // SAFETY: this is the area that was mapped above, and none of it is used any more.
    let _ = unsafe { rustix::mm::munmap(area.as_ptr(), whole) };
    collapsed
}
