//! The ledger's file, whose space is reserved as it grows.

use std::fs::File;
use std::io;

use redb::backends::FileBackend;
use redb::{DatabaseError, StorageBackend};
use rustix::fs::{FallocateFlags, fallocate};

/// A file that never needs more space to be written.
///
/// redb 2 does not survive a disk that fills up in the middle of a commit: it takes used pages for
/// free ones, and panics when it is opened the next time, or overwrites them (its issue 620). A
/// file system in memory, such as that of `/run`, writes into reserved space without needing more.
/// So a full one refuses to let the file grow before anything is written, and redb handles that.
#[derive(Debug)]
pub(super) struct Reserved {
    file: File,
    /// Locks the file for this process alone.
    inner: FileBackend,
}

impl Reserved {
    /// Locks a file, and reserves the space that it should already have.
    pub(super) fn new(file: &File) -> Result<Self, DatabaseError> {
        let inner = FileBackend::new(file.try_clone()?)?;
        let reserved = Self { file: file.try_clone()?, inner };
        reserved.reserve(reserved.inner.len()?)?;
        Ok(reserved)
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        if len > 0 {
            fallocate(&self.file, FallocateFlags::empty(), 0, len)?;
        }
        Ok(())
    }
}

impl StorageBackend for Reserved {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.inner.read(offset, len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if len > self.inner.len()? { self.reserve(len) } else { self.inner.set_len(len) }
    }

    fn sync_data(&self, eventual: bool) -> io::Result<()> {
        self.inner.sync_data(eventual)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.inner.write(offset, data)
    }
}
