//! The folder of results. Existing files are overwritten only on request, and each file appears
//! only when complete. If one cannot be put in place, those already placed stay.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::exit::Failure;
use crate::output::{file_beside, settle};

/// A folder for results.
pub(super) struct Folder {
    path: PathBuf,
    overwrite: bool,
}

impl Folder {
    pub(super) fn new(path: &Path, overwrite: bool) -> Self {
        Self { path: path.to_owned(), overwrite }
    }

    /// Returns an error if files would be overwritten, before any work is done.
    pub(super) fn refuse_existing(&self, names: &[String]) -> Result<(), Failure> {
        let shown = self.path.display();
        if self.path.exists() && !self.path.is_dir() {
            return Err(Failure::bad_input(format!("{shown}: is there and is no folder")));
        }
        let existing: Vec<&str> = names
            .iter()
            .map(String::as_str)
            // A symbolic link to nowhere counts as existing.
            .filter(|name| self.path.join(name).symlink_metadata().is_ok())
            .collect();
        if existing.is_empty() || self.overwrite {
            return Ok(());
        }
        Err(Failure::bad_input(format!(
            "{shown}: has {} from before; choose another folder with --out, or --force to replace \
             them",
            existing.join(", ")
        )))
    }

    /// Writes all files. Each takes its place only when it is complete.
    pub(super) fn write(&self, files: &[(String, Vec<u8>)]) -> Result<(), Failure> {
        let refuse = |path: &Path, error: &dyn std::fmt::Display| {
            Failure::cannot_here(format!("{}: cannot be written: {error}", path.display()))
        };
        fs::create_dir_all(&self.path).map_err(|error| refuse(&self.path, &error))?;
        let mut whole = Vec::new();
        for (name, bytes) in files {
            let path = self.path.join(name);
            let mut file = file_beside(&path)?;
            let written = file.write_all(bytes).and_then(|()| settle(&file));
            written.map_err(|error| refuse(&path, &error))?;
            whole.push((path, file));
        }
        for (path, file) in whole {
            let placed =
                if self.overwrite { file.persist(&path) } else { file.persist_noclobber(&path) };
            placed.map_err(|error| refuse(&path, &error.error))?;
        }
        Ok(())
    }
}
