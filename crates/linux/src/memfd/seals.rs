//! Memory that one process makes and another writes: the maker removes the writer's rights to do
//! anything but write.
//!
//! The writer must map the memory before it is sealed, because the seal denies new mappings for
//! writing. The maker may trust it only after that: without the seal the writer could punch a hole
//! into it while the maker reads, and hold the maker in a page fault. So the order is: [`lend`],
//! pass the descriptor on, the other side maps, [`seal`], [`Lent::freeze`].

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, SealFlags};
use rustix::mm::MapFlags;

use crate::mapping::Mapping;

use super::{MemfdError, Readable, SEALED, are_pages, check, make};

/// The seals that leave a writer only writing through its existing mappings. They deny new mappings
/// for writing, fallocate(2) with FALLOC_FL_PUNCH_HOLE, MADV_REMOVE, write(2), and other seals.
const FROZEN: SealFlags = SEALED.union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

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
