//! The folder of a ledger, which no other user may write.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;

use super::LedgerError;

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
