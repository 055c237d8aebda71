//! The ledger's folder, which no other user may write, and its file, whose space is reserved as it
//! grows.

use std::fs::File;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::{fs, io};

use redb::backends::FileBackend;
use redb::{DatabaseError, StorageBackend};
use rustix::fs::{FallocateFlags, fallocate};
use thiserror::Error;

/// The reason why the ledger cannot be read or written.
#[derive(Debug, Error)]
pub enum LedgerError {
    /// The database refused.
    #[error("{}: the ledger cannot be used: {source}; is another broker running, or the disk full?", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// The error.
        source: Box<redb::Error>,
    },
    /// The folder or the file cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// Other users could write promises into it.
    #[error(
        "{}: {why}; the ledger must lie in a folder of this user's own that nobody else may write: \
         remove it, or name another", path.display()
    )]
    Unsafe {
        /// The folder.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// This version of the broker did not write the entry.
    #[error("{}: grant {id} cannot be read: {why}; remove the file to start without any grant", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The number of the grant.
        id: u64,
        /// The error.
        why: String,
    },
}

/// Makes `folder` for this user alone if it is not there, and checks that no other user can write
/// into it.
pub(super) fn private(folder: &Path) -> Result<(), LedgerError> {
    let file = |source| LedgerError::File { path: folder.to_owned(), source };
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent).map_err(file)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(there) if there.kind() != io::ErrorKind::AlreadyExists => return Err(file(there)),
        _ => {}
    }
    let found = fs::symlink_metadata(folder).map_err(file)?;
    let us = rustix::process::geteuid().as_raw();
    let why = if !found.is_dir() {
        "it is no folder, or a link to one".into()
    } else if found.uid() != us {
        format!("it belongs to user {}, and this is user {us}", found.uid())
    } else if found.mode() & 0o022 != 0 {
        format!("others may write it (mode {:o})", found.mode() & 0o777)
    } else {
        return Ok(());
    };
    Err(LedgerError::Unsafe { path: folder.to_owned(), why })
}

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
