//! The file that a calibration is written to.

use std::fs::create_dir_all;
use std::io;
use std::path::{Path, PathBuf};

use punctual_model::host::Calibration;
use serde::Serialize;

use crate::Failure;
use crate::file::{FileError, NewFile};
use crate::host;

/// The error of opening or writing a profile's file.
#[derive(Debug, thiserror::Error)]
pub enum ProfileFileError {
    /// There is no default place, because the user has no home folder.
    #[error("there is no home folder for the profile; name a file")]
    NoHome,
    /// The folder of the default place cannot be made.
    #[error("{}: cannot be made: {error}; name a file", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The kernel's reason.
        error: io::Error,
    },
    /// The file cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl From<ProfileFileError> for Failure {
    fn from(error: ProfileFileError) -> Self {
        match error {
            ProfileFileError::NoHome => Self::bad_input(error),
            ProfileFileError::Folder { .. } => Self::cannot_here(error),
            ProfileFileError::File(error) => error.into(),
        }
    }
}

/// A profile about to be written. An existing file at its path stays until the new one is complete.
///
/// Open it before measuring, so that an unwritable path is found before a minute is spent.
#[derive(Debug)]
pub struct ProfileFile {
    file: NewFile,
}

impl ProfileFile {
    /// Opens the file at `path`; `None`: at the [default place](host::default_place), whose folder
    /// is made.
    ///
    /// # Errors
    /// If there is no such place, or no file can be made there.
    pub fn open(path: Option<&Path>) -> Result<Self, ProfileFileError> {
        if let Some(path) = path {
            return Ok(Self { file: NewFile::beside(path, true)? });
        }
        let path = host::default_place().ok_or(ProfileFileError::NoHome)?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        create_dir_all(folder)
            .map_err(|error| ProfileFileError::Folder { folder: folder.to_owned(), error })?;
        Ok(Self { file: NewFile::beside(&path, true)? })
    }

    /// Returns the existing profile, if it can be read.
    pub fn earlier(&self) -> Option<Calibration> {
        host::read(self.file.path()).ok()
    }

    /// Writes the profile.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(self, calibration: Calibration) -> Result<Written, ProfileFileError> {
        let path = self.file.write_and_place(calibration.to_string().as_bytes())?;
        Ok(Written { path: path.display().to_string(), calibration })
    }
}

/// A profile that was written. Field names are part of the interface.
#[derive(Clone, Debug, Serialize)]
pub struct Written {
    /// The file.
    pub path: String,
    /// The figures.
    #[serde(flatten)]
    pub calibration: Calibration,
}
