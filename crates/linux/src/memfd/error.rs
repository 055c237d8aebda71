//! The reasons memory cannot be shared by descriptor, and what would help.

use rustix::fs::SealFlags;
use rustix::io::Errno;
use thiserror::Error;

/// The reason memory cannot be made, or received memory cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MemfdError {
    /// A system call failed.
    #[error(
        "{bytes} bytes of shared memory cannot be had: {call} failed: {errno}; look at the limits \
         on memory and on open files (ulimit -n), and at whether the kernel has memfd_create(2)"
    )]
    Failed {
        /// The system call.
        call: &'static str,
        /// The number of bytes involved.
        bytes: usize,
        /// Its error.
        errno: Errno,
    },
    /// The size is zero, or not a multiple of the page size.
    #[error("{bytes} bytes cannot be shared: ask for a positive multiple of the page size, {page}")]
    NotPages {
        /// The requested size.
        bytes: usize,
        /// The size of a page.
        page: usize,
    },
    /// The descriptor is not a file of memfd_create(2) with ordinary pages: reading it might block
    /// or kill.
    #[error(
        "the descriptor is not of ordinary memory (memfd_create(2) without MFD_HUGETLB): have the \
         other side pass such memory"
    )]
    NotMemory,
    /// The memory might be truncated while it is mapped, which would kill a process that touches it
    /// (SIGBUS).
    #[error(
        "the memory is sealed with {seals:?} and must be sealed against shrinking and growing: have \
         the other side seal it with F_SEAL_SHRINK and F_SEAL_GROW"
    )]
    NotSealed {
        /// The seals that it has.
        seals: SealFlags,
    },
    /// Its writer could remove its pages while they are read.
    #[error(
        "the memory is sealed with {seals:?} and must be sealed against all but writing through the \
         mappings that there are: seal it once the other side has mapped it"
    )]
    NotFrozen {
        /// The seals that it has.
        seals: SealFlags,
    },
    /// Its size is not the agreed one.
    #[error("the memory has {bytes} bytes instead of {expected}: agree on one size")]
    OtherSize {
        /// Its size.
        bytes: u64,
        /// The agreed size.
        expected: usize,
    },
    /// The kernel cannot report when the memory is gone.
    #[error(
        "it cannot be seen when shared memory is gone: {errno}; raise fs.inotify.max_user_watches or \
         fs.inotify.max_user_instances (sysctl(8))"
    )]
    NotWatched {
        /// The error of inotify_init1(2) or inotify_add_watch(2).
        errno: Errno,
    },
    /// Its maker keeps other processes from writing to it.
    #[error("the memory is sealed against being written by anybody but its maker")]
    ReadOnly,
}
