//! The ledger's folder, which no other user may write, and what can be wrong with the ledger.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::{fs, io};

use thiserror::Error;

/// The reason why the ledger cannot be read or written.
#[derive(Debug, Error)]
pub enum LedgerError {
    /// The database refused.
    #[error("{}: the ledger cannot be used: {source}; end the other broker if one runs, make room if the disk is full, or remove the file to start without any grant", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// The error.
        source: rusqlite::Error,
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
