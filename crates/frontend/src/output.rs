//! Writes answers to standard output or to a file.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::NamedTempFile;

use crate::exit::Failure;

/// Prints `page`, with colours only on a terminal. A reader that closes the pipe early is no
/// failure.
pub fn print(page: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    match out.write_all(page.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::cannot_here(format!("cannot write the answer: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints `value` as indented JSON.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    print(&(encoded(serde_json::to_string_pretty(value))? + "\n"))
}

/// Returns `value` as JSON on one line, without a line end.
pub fn json_line(value: &impl Serialize) -> Result<String, Failure> {
    encoded(serde_json::to_string(value))
}

fn encoded(text: serde_json::Result<String>) -> Result<String, Failure> {
    text.map_err(|error| Failure::cannot_here(format!("cannot write the answer as JSON: {error}")))
}

/// A JSON file that is being written. A file that exists at its path stays until the new one is
/// complete.
pub struct JsonFile {
    path: PathBuf,
    file: NamedTempFile,
}

impl JsonFile {
    /// Opens a temporary file in the folder of `path`.
    pub fn beside(path: &Path) -> Result<Self, Failure> {
        Ok(Self { path: path.to_owned(), file: file_beside(path)? })
    }

    /// Writes `value` and moves the file to its path.
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

/// A file that is being written, and replaces an existing one only if it may.
pub struct NewFile {
    path: PathBuf,
    force: bool,
    file: NamedTempFile,
}

impl NewFile {
    /// Opens a temporary file in the folder of `path`. Refuses a `path` that exists unless forced.
    pub fn beside(path: &Path, force: bool) -> Result<Self, Failure> {
        if !force && path.symlink_metadata().is_ok() {
            return Err(in_the_way(path));
        }
        Ok(Self { path: path.to_owned(), force, file: file_beside(path)? })
    }

    /// Moves the complete file to its path.
    pub fn place(self) -> Result<(), Failure> {
        let Self { path, force, file } = self;
        settle(&file).map_err(|error| not_written(&path, &error))?;
        let placed = if force { file.persist(&path) } else { file.persist_noclobber(&path) };
        placed.map(drop).map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => in_the_way(&path),
            _ => not_written(&path, &error),
        })
    }

    /// Returns the failure that says that the file cannot be written.
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

/// Waits until a file's contents are on the disk, before the file is renamed. Otherwise a power
/// failure could leave the name without the contents.
pub fn settle(file: &NamedTempFile) -> io::Result<()> {
    file.as_file().sync_all()
}

/// Opens a temporary file in the folder of `path`, to be renamed later.
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
    // With the permissions that the user's umask allows, as for any other new file.
    let rights = Permissions::from_mode(0o666);
    tempfile::Builder::new().permissions(rights).tempfile_in(folder).map_err(|error| refuse(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that JSON cannot express, since the keys of its objects must be text.
    fn inexpressible() -> std::collections::BTreeMap<(u8, u8), u8> {
        [((1, 2), 3)].into()
    }

    #[test]
    fn a_value_that_is_not_expressible_in_json_is_a_failure() {
        let refused = |outcome: Result<(), Failure>| match outcome {
            Err(Failure::CannotHere(why)) => assert!(why.contains("as JSON: key must be"), "{why}"),
            other => panic!("{other:?}"),
        };
        refused(json(&inexpressible()));
        refused(json_line(&inexpressible()).map(drop));
    }

    #[test]
    fn a_line_of_json_contains_no_line_end() {
        assert_eq!(json_line(&["a\nb"]).expect("text"), r#"["a\nb"]"#);
    }
}
