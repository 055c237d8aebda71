//! The folder of results. Existing files are overwritten only on request, and each file appears
//! only when complete. If one cannot be put in place, those already placed stay.

use std::fs::create_dir_all;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::file::{FileError, NewFile};

/// The error of writing results into a folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The path is not that of a folder.
    #[error("{}: is there and is no folder", .0.display())]
    NoFolder(PathBuf),
    /// The folder holds files of these names, which may not be replaced.
    #[error(
        "{}: has {} from before; choose another folder, or replace them",
        .folder.display(),
        .names.join(", ")
    )]
    HasFiles {
        /// The folder.
        folder: PathBuf,
        /// The names of the files.
        names: Vec<String>,
    },
    /// The folder cannot be made.
    #[error("{}: cannot be written: {error}", .folder.display())]
    NotMade {
        /// The folder.
        folder: PathBuf,
        /// The kernel's reason.
        error: io::Error,
    },
    /// A file cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Self {
        match error {
            FolderError::NoFolder(_) | FolderError::HasFiles { .. } => Self::bad_input(error),
            FolderError::NotMade { .. } => Self::cannot_here(error),
            FolderError::File(error) => error.into(),
        }
    }
}

/// A folder for results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
    replaces: bool,
}

impl Folder {
    /// Names a folder, which need not exist yet. Existing files are replaced only if `replaces`.
    pub fn new(path: &Path, replaces: bool) -> Self {
        Self { path: path.to_owned(), replaces }
    }

    /// Tests whether files of these names can be written, before any work is done.
    ///
    /// # Errors
    /// If the path is not that of a folder, or files would be replaced that may not be.
    pub fn can_take(&self, names: &[String]) -> Result<(), FolderError> {
        if self.path.exists() && !self.path.is_dir() {
            return Err(FolderError::NoFolder(self.path.clone()));
        }
        // A symbolic link to nowhere counts as existing.
        let exists = |name: &&String| self.path.join(name).symlink_metadata().is_ok();
        let existing: Vec<String> = names.iter().filter(exists).cloned().collect();
        if existing.is_empty() || self.replaces {
            return Ok(());
        }
        Err(FolderError::HasFiles { folder: self.path.clone(), names: existing })
    }

    /// Writes all files. Each takes its place only when all are complete.
    ///
    /// # Errors
    /// If the folder cannot be made, or a file cannot be written.
    pub fn write(&self, files: &[(String, Vec<u8>)]) -> Result<(), FolderError> {
        create_dir_all(&self.path)
            .map_err(|error| FolderError::NotMade { folder: self.path.clone(), error })?;
        let mut complete = Vec::new();
        for (name, bytes) in files {
            let mut file = NewFile::beside(&self.path.join(name), self.replaces)?;
            file.write_all(bytes).map_err(|error| file.refuse(error))?;
            complete.push(file);
        }
        for file in complete {
            file.place()?;
        }
        Ok(())
    }
}
