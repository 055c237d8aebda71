//! Memory that processes share by passing a descriptor (memfd_create(2)), sealed so that neither
//! side can hurt the other with it (fcntl(2), "File Sealing").
//!
//! - Its size is final, so no process is killed by touching pages that have been cut off.
//! - Its maker may keep other processes from writing to it, whatever descriptor they hold; then
//!   they cannot punch holes into it either.
//! - The set of seals is final before the other side's memory is used, so that a peer can add none.
//! - All pages are in place before it is used, so there is no page fault later. A maker that
//!   [holds](Writable::hold) them prevents other processes from having them replaced by huge ones.
//!   This does not prevent swapping; `memory::lock_all` does.
//!
//! A mapping keeps the memory alive, and the size is sealed, so a descriptor is needed only to pass
//! the memory on. Creation returns that descriptor, and a mapping holds none.
//!
//! Another process may write to the memory at any time, so it is accessible only word by word, as
//! atomics. Memory that we may not write is only read.
//!
//! # Memory that its maker lends
//! Memory that one process makes and another writes is [lent](lend): the maker removes the writer's
//! rights to do anything but write. The writer must map the memory before it is sealed, because the
//! seal denies new mappings for writing. The maker may trust it only after that: without the seal
//! the writer could punch a hole into it while the maker reads, and hold the maker in a page fault.
//! So the order is: [`lend`], pass the descriptor on, the other side maps, [`seal`],
//! [`Lent::freeze`]. Only then it is read.
#![allow(unsafe_code)]

mod error;
mod pins;
mod presence;
#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, Mode, SealFlags};
use rustix::io::Errno;
use rustix::mm::MapFlags;

use crate::mapping::Mapping;
use pins::Pins;

pub use error::MemfdError;
pub use pins::collapses;
pub use presence::{Presence, Watched};

/// The magic number of the file system behind memfd_create(2) (statfs(2), TMPFS_MAGIC). Huge pages
/// have another; touching one kills if none is left.
const TMPFS: i64 = 0x0102_1994;

/// The seals that all of this memory has.
const SEALED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// The seals that leave a writer only writing through its existing mappings. They deny new mappings
/// for writing, fallocate(2) with FALLOC_FL_PUNCH_HOLE, MADV_REMOVE, write(2), and other seals.
const FROZEN: SealFlags = SEALED.union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// The access of other processes that get the descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// Read only (F_SEAL_FUTURE_WRITE). No process can map it for writing again, not even its
    /// maker, so it cannot be handed to the maker's successor.
    Read,
    /// Read and write, so that a process that replaces the first writer can go on.
    Write,
}

/// Memory that this process reads and writes.
#[derive(Debug)]
pub struct Writable {
    mapping: Mapping,
    pins: Pins,
}

/// Memory that this process only reads.
#[derive(Debug)]
pub struct Readable {
    mapping: Mapping,
}

impl Writable {
    /// Makes `bytes` bytes of zero, a multiple of the page size. Returns them with a descriptor to
    /// pass on. `name` is shown in /proc.
    ///
    /// ```
    /// use punctual_linux::memfd::{Others, Readable, Writable};
    /// use std::sync::atomic::Ordering;
    ///
    /// // The descriptor goes over a socket to another process; see `pass::send`.
    /// let (ours, theirs) = Writable::create("example", 4096, Others::Read)?;
    /// let seen = Readable::of(theirs.try_clone().expect("a descriptor"), 4096)?;
    /// ours.words()[7].store(42, Ordering::Relaxed);
    /// assert_eq!(seen.load(7), 42);
    /// assert!(Writable::of(theirs, 4096).is_err());
    /// # Ok::<(), punctual_linux::memfd::MemfdError>(())
    /// ```
    ///
    /// # Errors
    /// If the size is zero or not a multiple of the page size, or the kernel refuses.
    pub fn create(name: &str, bytes: usize, others: Others) -> Result<(Self, OwnedFd), MemfdError> {
        let (made, file) = Self::create_sparse(name, bytes, others)?;
        made.populate()?;
        Ok((made, file))
    }

    /// Does the same, but allocates each page when it is first touched, at the expense of the
    /// process that touches it. [`Self::populate`] allocates the rest.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_sparse(
        name: &str,
        bytes: usize,
        others: Others,
    ) -> Result<(Self, OwnedFd), MemfdError> {
        are_pages(bytes)?;
        let failed = |call| move |errno| MemfdError::Failed { call, bytes, errno };
        let file = make(name).map_err(failed("memfd_create(2)"))?;
        rustix::fs::ftruncate(&file, bytes as u64).map_err(failed("ftruncate(2)"))?;
        let mapping =
            Mapping::of(&file, 0, bytes, true, MapFlags::empty()).map_err(failed("mmap(2)"))?;
        let seals = match others {
            Others::Read => SEALED | SealFlags::FUTURE_WRITE,
            Others::Write => SEALED,
        };
        let sealed = rustix::fs::fcntl_add_seals(&file, seals | SealFlags::SEAL);
        sealed.map_err(failed("fcntl(2), F_ADD_SEALS"))?;
        Ok((Self { mapping, pins: Pins::default() }, file))
    }

    /// Allocates every page, so that none is missing later.
    ///
    /// # Errors
    /// If not all pages can be allocated.
    pub fn populate(&self) -> Result<(), MemfdError> {
        let bytes = self.mapping.count() * size_of::<AtomicU64>();
        let populated = self.mapping.populate(true);
        populated.map_err(|errno| MemfdError::Failed { call: "madvise(2)", bytes, errno })
    }

    /// Keeps the pages of this memory and of `other`, which must all be in place, from being
    /// replaced by huge ones as long as this lives, so that no page is missing meanwhile. Takes a
    /// descriptor.
    ///
    /// # Errors
    /// If no descriptor is left, or the kernel refuses.
    pub fn hold(&mut self, other: &Readable) -> Result<(), MemfdError> {
        let bytes = self.mapping.count() * size_of::<AtomicU64>();
        let pins = Pins::of([&self.mapping, &other.mapping]);
        self.pins =
            pins.map_err(|errno| MemfdError::Failed { call: "vmsplice(2)", bytes, errno })?;
        Ok(())
    }

    /// Maps memory of `bytes` bytes that another process made, for writing.
    ///
    /// # Errors
    /// If it is not such memory, of that size, sealed against changes of its size; or its maker
    /// keeps other processes from writing to it.
    pub fn of(file: OwnedFd, bytes: usize) -> Result<Self, MemfdError> {
        let seals = check(&file, bytes)?;
        if seals.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE) {
            return Err(MemfdError::ReadOnly);
        }
        let mapping = mapped(&file, bytes, true);
        let mapping = mapping.map_err(|errno| match errno {
            // The descriptor was opened for reading.
            Errno::ACCESS | Errno::PERM => MemfdError::ReadOnly,
            errno => MemfdError::Failed { call: "mmap(2)", bytes, errno },
        })?;
        Ok(Self { mapping, pins: Pins::default() })
    }

    /// Returns the words, which other processes may change, too.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: this mapping was made for writing, so any atomic operation is allowed.
        unsafe { self.mapping.words() }
    }
}

impl AsRef<[AtomicU64]> for Writable {
    #[inline]
    fn as_ref(&self) -> &[AtomicU64] {
        self.words()
    }
}

impl Readable {
    /// Maps memory of `bytes` bytes that another process made, for reading.
    ///
    /// # Errors
    /// If it is not such memory, of that size, sealed against changes of its size.
    pub fn of(file: OwnedFd, bytes: usize) -> Result<Self, MemfdError> {
        check(&file, bytes)?;
        let mapping = mapped(&file, bytes, false);
        let mapping =
            mapping.map_err(|errno| MemfdError::Failed { call: "mmap(2)", bytes, errno })?;
        Ok(Self { mapping })
    }

    /// Returns the number of 8-byte words.
    #[inline]
    pub fn count(&self) -> usize {
        self.mapping.count()
    }

    /// Reads the word `at`, relaxed: read-only memory may be accessed as an atomic in no other way
    /// (`std::sync::atomic`, "Atomic accesses to read-only memory"). An acquire fence after it
    /// makes it equivalent to an acquiring load.
    ///
    /// # Panics
    /// If there is no such word.
    #[inline]
    pub fn load(&self, at: usize) -> u64 {
        // SAFETY: the words are only loaded, relaxed.
        let words = unsafe { self.mapping.words() };
        words[at].load(Ordering::Relaxed)
    }

    /// Reads words from `at` on, until `into` is full.
    ///
    /// # Panics
    /// If there are not as many.
    #[inline]
    pub fn load_all(&self, at: usize, into: &mut [u64]) {
        // SAFETY: the words are only loaded, relaxed.
        let words = unsafe { self.mapping.words() };
        let words = &words[at..][..into.len()];
        for (to, from) in into.iter_mut().zip(words) {
            *to = from.load(Ordering::Relaxed);
        }
    }

    /// Returns the address of the word `at`, for the kernel to read from. Other processes may
    /// change the word at any time.
    ///
    /// # Panics
    /// If there is no such word.
    pub fn address(&self, at: usize) -> *const u8 {
        // SAFETY: none of the words is accessed here.
        let words = unsafe { self.mapping.words() };
        words[at..].as_ptr().cast()
    }
}

/// Maps all `bytes` of a file, which must be that long and sealed against shrinking, and faults in
/// every page.
fn mapped(file: &OwnedFd, bytes: usize, writable: bool) -> Result<Mapping, Errno> {
    let mapping = Mapping::of(file, 0, bytes, writable, MapFlags::empty())?;
    mapping.populate(writable)?;
    Ok(mapping)
}

fn are_pages(bytes: usize) -> Result<(), MemfdError> {
    let page = rustix::param::page_size();
    if bytes > 0 && bytes.is_multiple_of(page) {
        Ok(())
    } else {
        Err(MemfdError::NotPages { bytes, page })
    }
}

fn make(name: &str) -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Before Linux 6.3.
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        made => made,
    }
}

/// Checks that memory made by another process cannot hurt a process that maps it, and returns its
/// seals.
fn check(file: &OwnedFd, bytes: usize) -> Result<SealFlags, MemfdError> {
    are_pages(bytes)?;
    // Only memory can be sealed.
    let seals = rustix::fs::fcntl_get_seals(file).map_err(|_| MemfdError::NotMemory)?;
    if rustix::fs::fstatfs(file).map_err(|_| MemfdError::NotMemory)?.f_type != TMPFS {
        return Err(MemfdError::NotMemory);
    }
    if !seals.contains(SEALED) {
        return Err(MemfdError::NotSealed { seals });
    }
    // After the seals: before that the size could still change.
    let status = rustix::fs::fstat(file).map_err(|_| MemfdError::NotMemory)?;
    match u64::try_from(status.st_size) {
        Ok(size) if size == bytes as u64 => Ok(seals),
        size => Err(MemfdError::OtherSize { bytes: size.unwrap_or(0), expected: bytes }),
    }
}

/// Memory that this process made for another one to write, which it can read once it is sealed.
#[derive(Debug)]
pub struct Lent {
    mapping: Mapping,
    bytes: usize,
}

/// Makes `bytes` bytes of zero, a multiple of the page size, and maps them for reading; a process
/// that gets the descriptor can write them. Mapping happens here because a later mapping could wait
/// for a lock that the other side holds. No page is in place yet. `name` is shown in /proc.
///
/// ```
/// use punctual_linux::memfd::{self, Writable};
/// use std::sync::atomic::Ordering;
///
/// let (lent, file) = memfd::lend("example", 4096)?;
/// let theirs = Writable::of(file.try_clone().expect("a descriptor"), 4096)?;
/// memfd::seal(&file)?;
/// let seen = lent.freeze(&file)?;
/// theirs.words()[7].store(42, Ordering::Relaxed);
/// assert_eq!(seen.load(7), 42);
/// assert!(Writable::of(file, 4096).is_err(), "nobody maps it for writing again");
/// # Ok::<(), punctual_linux::memfd::MemfdError>(())
/// ```
///
/// # Errors
/// If the size is zero or not a multiple of the page size, or the kernel refuses.
pub fn lend(name: &str, bytes: usize) -> Result<(Lent, OwnedFd), MemfdError> {
    are_pages(bytes)?;
    let failed = |call| move |errno| MemfdError::Failed { call, bytes, errno };
    let file = make(name).map_err(failed("memfd_create(2)"))?;
    rustix::fs::ftruncate(&file, bytes as u64).map_err(failed("ftruncate(2)"))?;
    // Only its maker may open it again through /proc.
    rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR).map_err(failed("fchmod(2)"))?;
    rustix::fs::fcntl_add_seals(&file, SEALED).map_err(failed("fcntl(2), F_ADD_SEALS"))?;
    let mapping =
        Mapping::of(&file, 0, bytes, false, MapFlags::empty()).map_err(failed("mmap(2)"))?;
    Ok((Lent { mapping, bytes }, file))
}

/// Denies all processes whatever could hurt a reader of [lent](lend) memory. This may wait as long
/// as a writer likes, because a writer can hold the lock of the file: call it only on a thread on
/// which no other process depends.
///
/// # Errors
/// If the kernel refuses. Memory that is sealed already is no error.
pub fn seal(file: &OwnedFd) -> Result<(), MemfdError> {
    match rustix::fs::fcntl_add_seals(file, FROZEN) {
        Ok(()) => Ok(()),
        // No more seals can be added: they are there already, or `freeze` finds them missing.
        Err(rustix::io::Errno::PERM) => Ok(()),
        Err(errno) => Err(MemfdError::Failed { call: "fcntl(2), F_ADD_SEALS", bytes: 0, errno }),
    }
}

impl Lent {
    /// Makes it memory that can be read without a fault. First it checks the seals, which takes no
    /// lock. Then it faults in every page, which may wait for a process that holds one: call it
    /// only on a thread on which no other process depends.
    ///
    /// # Errors
    /// If it is not [sealed](seal), or not all pages can be allocated.
    pub fn freeze(self, file: &OwnedFd) -> Result<Readable, MemfdError> {
        let seals = check(file, self.bytes)?;
        if !seals.contains(FROZEN) {
            return Err(MemfdError::NotFrozen { seals });
        }
        let bytes = self.bytes;
        let populated = self.mapping.populate(false);
        populated.map_err(|errno| MemfdError::Failed { call: "madvise(2)", bytes, errno })?;
        Ok(Readable { mapping: self.mapping })
    }
}

/// Finds out by trying whether a process that has mapped our memory can have its pages replaced by
/// a huge one although they are [held](Writable::hold). Returns `None` if that cannot be tried.
pub fn can_be_collapsed() -> Option<bool> {
    let page = rustix::param::page_size();
    let (mut own, file) = Writable::create("punctual probe", page, Others::Read).ok()?;
    let seen = Readable::of(file.try_clone().ok()?, page).ok()?;
    own.hold(&seen).ok()?;
    collapses(&file, 0)
}
