//! Where answers go: standard output, or a file.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::NamedTempFile;

use crate::exit::Failure;

/// Prints without colours unless to a terminal. A reader that has seen enough is no failure.
pub fn print(page: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    match out.write_all(page.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::cannot_here(format!("cannot write the answer: {error}")))
        }
        _ => Ok(()),
    }
}

/// A JSON file to be: what is at its path stays until the new one is whole.
pub struct JsonFile {
    path: PathBuf,
    file: NamedTempFile,
}

impl JsonFile {
    /// Opens a file of its own in the folder of `path`.
    pub fn beside(path: &Path) -> Result<Self, Failure> {
        Ok(Self { path: path.to_owned(), file: file_beside(path)? })
    }

    /// Writes `value` and puts the file in its place.
    pub fn write(mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer_pretty(&mut self.file, value)
            .map_err(io::Error::from)
            .and_then(|()| self.file.write_all(b"\n"))
            .and_then(|()| settle(&self.file))
            .map_err(|error| not_written(&self.path, &error))?;
        self.file.persist(&self.path).map_err(|error| not_written(&self.path, &error))?;
        Ok(())
    }
}

/// A file to be that replaces another one only if it may.
pub struct NewFile {
    path: PathBuf,
    force: bool,
    file: NamedTempFile,
}

impl NewFile {
    /// Opens a file of its own in the folder of `path`, and refuses a `path` that is there unless forced.
    pub fn beside(path: &Path, force: bool) -> Result<Self, Failure> {
        if !force && path.symlink_metadata().is_ok() {
            return Err(in_the_way(path));
        }
        Ok(Self { path: path.to_owned(), force, file: file_beside(path)? })
    }

    /// Puts the whole file in its place.
    pub fn place(self) -> Result<(), Failure> {
        let Self { path, force, file } = self;
        settle(&file).map_err(|error| not_written(&path, &error))?;
        let placed = if force { file.persist(&path) } else { file.persist_noclobber(&path) };
        placed.map(drop).map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => in_the_way(&path),
            _ => not_written(&path, &error),
        })
    }

    /// Says that it cannot be written.
    pub fn refuse(&self, error: &io::Error) -> Failure {
        not_written(&self.path, error)
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

fn in_the_way(path: &Path) -> Failure {
    let path = path.display();
    Failure::bad_input(format!(
        "{path}: there is a file of this name; choose another, or overwrite it with --force"
    ))
}

fn not_written(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::cannot_here(format!("{}: cannot be written: {error}", path.display()))
}

/// Waits until a file's contents are on the disk, before it takes its place. Else its name could be there
/// first, and nothing behind it if power fails.
pub fn settle(file: &NamedTempFile) -> io::Result<()> {
    file.as_file().sync_all()
}

/// Opens a file in the folder of `path`, to take its place later.
pub fn file_beside(path: &Path) -> Result<NamedTempFile, Failure> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let refuse = |why: &dyn std::fmt::Display| {
        Failure::bad_input(format!("{}: cannot be written: {why}", path.display()))
    };
    if path.file_name().is_none() || path.is_dir() {
        return Err(refuse(&"it is a folder"));
    }
    // With the rights that the user's umask gives, as any other new file.
    let rights = Permissions::from_mode(0o666);
    tempfile::Builder::new().permissions(rights).tempfile_in(folder).map_err(|error| refuse(&error))
}
