//! Files of shared memory that no process uses any more.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::lock::{is_taken, lock};
use super::{DIRECTORY, ShmError, is_at, unusable};

/// Returns the range of all places: it reaches to the end of the file and so covers any number.
fn all_places(file: &File) -> io::Result<std::ops::Range<usize>> {
    let size = file.metadata()?.len();
    Ok(0..usize::try_from(size).unwrap_or(usize::MAX))
}

/// Returns this user's files of shared memory that no process uses: killed processes left them.
/// They do no harm, and hold a few kilobytes each.
///
/// Empty if /dev/shm cannot be read.
///
/// ```
/// for path in punctual_linux::shm::left_over() {
///     println!("left over: {}", path.display());
/// }
/// ```
pub fn left_over() -> Vec<PathBuf> {
    let mine = format!("punctual-{}.", rustix::process::geteuid().as_raw());
    let Ok(entries) = fs::read_dir(DIRECTORY) else { return Vec::new() };
    let mine = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(mine.as_bytes()))
    };
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(mine)
        .filter(|path| is_left_over(path).unwrap_or(false))
        .collect()
}

fn is_left_over(path: &Path) -> io::Result<bool> {
    let file = open(path)?;
    Ok(!is_taken(&file, all_places(&file)?)?)
}

/// Removes the file at `path` if no process uses it, and returns true if it did. No process can
/// join it meanwhile: one that tries waits a moment and makes the file again.
pub fn remove_left_over(path: &Path) -> Result<bool, ShmError> {
    let failed = |error| unusable(path, error);
    let file = match open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed(error)),
    };
    match lock(&file, all_places(&file).map_err(failed)?) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
        locked => locked.map_err(failed)?,
    }
    if !is_at(&file, path) {
        return Ok(false);
    }
    fs::remove_file(path).map_err(failed)?;
    Ok(true)
}

/// Opens a plain file; does not follow a symbolic link.
fn open(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}
