//! Why memory cannot be shared by descriptor, and what would help.

use rustix::fs::SealFlags;
use rustix::io::Errno;
use thiserror::Error;

/// Why memory cannot be made, or one that was received cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MemfdError {
    /// A system call failed.
    #[error(
        "{bytes} bytes of shared memory cannot be had: {call} failed: {errno}; look at the limits \
         on memory and on open files (ulimit -n), and at whether the kernel has memfd_create(2)"
    )]
    Failed {
        /// Which one.
        call: &'static str,
        /// How many bytes it was about.
        bytes: usize,
        /// Its error.
        errno: Errno,
    },
    /// None, or not whole pages.
    #[error("{bytes} bytes cannot be shared: ask for a positive multiple of the page size, {page}")]
    NotPages {
        /// What was asked for.
        bytes: usize,
        /// The size of a page.
        page: usize,
    },
    /// Not a file of memfd_create(2) with ordinary pages: reading it might block or kill.
    #[error(
        "the descriptor is not of ordinary memory (memfd_create(2) without MFD_HUGETLB): have the \
         other side pass such memory"
    )]
    NotMemory,
    /// It might be cut short while it is mapped, which would kill whoever touches it (SIGBUS).
    #[error(
        "the memory is sealed with {seals:?} and must be sealed against shrinking and growing: have \
         the other side seal it with F_SEAL_SHRINK and F_SEAL_GROW"
    )]
    NotSealed {
        /// What it is sealed with.
        seals: SealFlags,
    },
    /// Whoever writes it could take its pages away while it is read.
    #[error(
        "the memory is sealed with {seals:?} and must be sealed against all but writing through the \
         mappings that there are: seal it once the other side has mapped it"
    )]
    NotFrozen {
        /// What it is sealed with.
        seals: SealFlags,
    },
    /// Of another size than agreed upon.
    #[error("the memory has {bytes} bytes instead of {expected}: agree on one size")]
    OtherSize {
        /// What it has.
        bytes: u64,
        /// What it should have.
        expected: usize,
    },
    /// Nobody would say when it is gone.
    #[error(
        "it cannot be seen when shared memory is gone: {errno}; raise fs.inotify.max_user_watches or \
         fs.inotify.max_user_instances (sysctl(8))"
    )]
    NotWatched {
        /// The error of inotify_init1(2) or inotify_add_watch(2).
        errno: Errno,
    },
    /// Its maker keeps it to himself.
    #[error("the memory is sealed against being written by anybody but its maker")]
    ReadOnly,
}
