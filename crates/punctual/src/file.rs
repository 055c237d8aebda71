//! Writes files that take their place only when they are complete.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::{Failure, Remedy};

/// The error of writing a file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// There is a file of this name, and it may not be replaced.
    #[error("{}: there is a file of this name; choose another, or overwrite it", .0.display())]
    Exists(PathBuf),
    /// The path is that of a folder.
    #[error("{}: cannot be written: it is a folder", .0.display())]
    IsFolder(PathBuf),
    /// No file can be made in its folder.
    #[error("{}: cannot be written: {error}", .path.display())]
    NotMade {
        /// The path.
        path: PathBuf,
        /// The kernel's reason.
        error: io::Error,
    },
    /// Its contents cannot be written, or it cannot take its place.
    #[error("{}: cannot be written: {error}", .path.display())]
    NotWritten {
        /// The path.
        path: PathBuf,
        /// The kernel's reason.
        error: io::Error,
    },
}

impl From<FileError> for Failure {
    /// Counts a path at which no file can be made as bad input, and a failed write as the host's
    /// failure.
    fn from(error: FileError) -> Self {
        match error {
            FileError::NotWritten { .. } => Self::cannot_here(error),
            FileError::Exists(_) => Self::bad_input(error).with(Remedy::Replace),
            FileError::IsFolder(_) | FileError::NotMade { .. } => Self::bad_input(error),
        }
    }
}

/// A file that is being written. A file that exists at its path stays until the new one is
/// complete.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    replaces: bool,
    file: NamedTempFile,
}

impl NewFile {
    /// Opens a temporary file in the folder of `path`. A file that exists at `path` is replaced
    /// only if `replaces`.
    ///
    /// # Errors
    /// If there is a file that may not be replaced, or no file can be made there.
    pub fn beside(path: &Path, replaces: bool) -> Result<Self, FileError> {
        if path.file_name().is_none() || path.is_dir() {
            return Err(FileError::IsFolder(path.to_owned()));
        }
        // A symbolic link to nowhere counts as existing.
        if !replaces && path.symlink_metadata().is_ok() {
            return Err(FileError::Exists(path.to_owned()));
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // With the permissions that the user's umask allows, as for any other new file.
        let rights = Permissions::from_mode(0o666);
        let file = tempfile::Builder::new().permissions(rights).tempfile_in(folder);
        let path = path.to_owned();
        match file {
            Ok(file) => Ok(Self { path, replaces, file }),
            Err(error) => Err(FileError::NotMade { path, error }),
        }
    }

    /// Returns the path that the file will have when it is complete.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the incomplete file. It is removed with this value.
    pub fn incomplete(&self) -> &Path {
        self.file.path()
    }

    /// Moves the complete file to its path, and returns the path.
    ///
    /// # Errors
    /// If it cannot be stored, or a file has appeared at its path that may not be replaced.
    pub fn place(self) -> Result<PathBuf, FileError> {
        let Self { path, replaces, file } = self;
        // The contents are on the disk before the name is. Otherwise a power failure could leave
        // the name without the contents.
        if let Err(error) = file.as_file().sync_all() {
            return Err(FileError::NotWritten { path, error });
        }
        let placed = if replaces { file.persist(&path) } else { file.persist_noclobber(&path) };
        match placed.map_err(|error| error.error) {
            Ok(_) => Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(FileError::Exists(path))
            }
            Err(error) => Err(FileError::NotWritten { path, error }),
        }
    }

    /// Writes all of `contents`, and moves the file to its path.
    ///
    /// # Errors
    /// If it cannot be written or moved.
    pub fn write_and_place(mut self, contents: &[u8]) -> Result<PathBuf, FileError> {
        match self.file.write_all(contents) {
            Ok(()) => self.place(),
            Err(error) => Err(self.refuse(error)),
        }
    }

    /// Returns the error that says that the file cannot be written.
    pub fn refuse(&self, error: io::Error) -> FileError {
        FileError::NotWritten { path: self.path.clone(), error }
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_appears_when_it_is_complete_and_replaces_another_only_if_it_may() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.toml");
        let first = NewFile::beside(&path, false).expect("the folder is ours");
        let second = NewFile::beside(&path, false).expect("there is none yet");
        assert!(!path.exists());
        assert_eq!(first.write_and_place(b"1").expect("placed"), path);
        assert!(matches!(second.write_and_place(b"2"), Err(FileError::Exists(_))));
        assert!(matches!(NewFile::beside(&path, false), Err(FileError::Exists(_))));
        assert_eq!(fs::read(&path).expect("written"), b"1");
        let third = NewFile::beside(&path, true).expect("it may");
        third.write_and_place(b"3").expect("placed");
        assert_eq!(fs::read(&path).expect("written"), b"3");
        drop(NewFile::beside(&path, true));
        assert_eq!(fs::read_dir(&folder).expect("ours").count(), 1, "nothing incomplete is left");
    }

    #[test]
    fn a_path_of_no_file_is_bad_input() {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, words) in [
            (folder.path().to_owned(), "it is a folder"),
            (folder.path().join("none/a.toml"), "cannot be written: No such file"),
        ] {
            let error = NewFile::beside(&path, true).expect_err("no file can be made");
            assert!(error.to_string().contains(words), "{error}");
            assert!(matches!(Failure::from(error), Failure::BadInput(_)));
        }
    }
}
