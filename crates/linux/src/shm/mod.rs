//! Memory that processes share by the name of a file, with a place in it for each of them.
//!
//! A place belongs to the process that holds the lock on its byte of the file (an open file
//! description lock, fcntl(2)). The kernel drops the lock when the holder ends, however it ends. So
//! no process has to find out whether an owner still lives, and a recycled process id does no harm.
//! The last process to leave removes the file. The file stays only if its last users were killed:
//! the next process to join uses and later removes it, and meanwhile [`left_over()`] finds it and
//! [`remove_left_over`] removes it.
//!
//! A child made by fork(2) shares its parent's file description, and so keeps the parent's place
//! after the parent ends, until the child ends or executes a program. The child never gives the
//! place back itself.
//!
//! Other processes write to the memory, so it can hold anything. It is accessed only as atomics,
//! which have no invalid value. If another process of the same user truncated the file while we use
//! it, the kernel would kill us (SIGBUS, mmap(2)); no other user may write to it.
#![allow(unsafe_code)]

#[cfg(test)]
mod tests;

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::{fs, io};

use punctual_model::time::Duration;
use rustix::fs::{Mode, OFlags};
use rustix::mm::MapFlags;
use rustix::process::Pid;
use thiserror::Error;

use crate::clock;
use crate::mapping::Mapping;

/// The directory of named shared memory (shm_overview(7)).
const DIRECTORY: &str = "/dev/shm";

/// How long the last process to leave may hold all places before they count as taken.
const LEAVING: Duration = Duration::from_millis(50);

/// Returns the path of this user's file with this name: `/dev/shm/punctual-<uid>.<name>`.
pub fn path(name: &str) -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    Path::new(DIRECTORY).join(format!("punctual-{user}.{name}"))
}

/// A place in shared memory, held until it is dropped.
#[derive(Debug)]
pub struct Shared {
    path: PathBuf,
    file: File,
    map: Mapping,
    places: usize,
    place: usize,
    /// The process that joined. A child with a copy of this value has another id.
    process: Pid,
}

impl Shared {
    /// Takes the first free one of `places` in the file at `path`. Makes the file, with `words`
    /// words of zero, if it does not exist.
    pub fn join(path: &Path, words: usize, places: usize) -> Result<Self, ShmError> {
        let until = clock::now() + LEAVING;
        loop {
            let file = open(path, size(words))?;
            let place = (0..places).find_map(|place| match lock(&file, place..place + 1) {
                Ok(()) => Some(Ok(place)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
                Err(error) => Some(Err(error)),
            });
            let place = match place {
                Some(place) => place.map_err(|error| unusable(path, error))?,
                None if clock::now() > until => {
                    return Err(ShmError::Full { path: path.to_owned(), places });
                }
                // The last process to leave may hold all places while it removes the file.
                None => {
                    clock::sleep(LEAVING / 100);
                    continue;
                }
            };
            // The last process to leave may have removed the file between our open and our lock.
            if is_at(&file, path) {
                let map = Mapping::of(&file, 0, size(words), true, MapFlags::empty());
                let map = map.map_err(|errno| unusable(path, errno.into()))?;
                let process = rustix::process::getpid();
                let path = path.to_owned();
                return Ok(Self { path, file, map, places, place, process });
            }
        }
    }

    /// Returns our place. No other live process has the same.
    pub fn place(&self) -> usize {
        self.place
    }

    /// Returns the words, which all processes share.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the map is writable, and only processes of this user could truncate its file.
        unsafe { self.map.words() }
    }

    /// Calls `vacate` if no process has `place`, and lets no process take the place meanwhile.
    /// Returns true if it called `vacate`; our own place is never vacant. Two or three system
    /// calls.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn if_vacant(&self, place: usize, vacate: impl FnOnce()) -> bool {
        assert!(place < self.places, "one of the places");
        // The kernel would grant us a second lock on our own place.
        if place == self.place || lock(&self.file, place..place + 1).is_err() {
            return false;
        }
        vacate();
        // Fails only if the file is not a file, and then no other process can lock it either.
        let _ = unlock(&self.file, place);
        true
    }

    /// Returns true if another process has `place`. One system call.
    pub fn is_taken(&self, place: usize) -> bool {
        place != self.place && is_taken(&self.file, place..place + 1).unwrap_or(false)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // In a child made by fork(2) the place still belongs to the parent.
        if self.process != rustix::process::getpid() {
            return;
        }
        // Our own place first: if two processes leave at once, the later one then finds no lock but
        // its own.
        let _ = unlock(&self.file, self.place);
        if lock(&self.file, 0..self.places).is_ok() && is_at(&self.file, &self.path) {
            // A process that opened the file meanwhile and waits for a place sees that it is gone.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn size(words: usize) -> usize {
    words * size_of::<AtomicU64>()
}

fn unusable(path: &Path, error: io::Error) -> ShmError {
    ShmError::Unusable { path: path.to_owned(), error }
}

/// Opens or makes the file, and checks its owner, mode, type and size.
fn open(path: &Path, size: usize) -> Result<File, ShmError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags | OFlags::NONBLOCK, Mode::RUSR | Mode::WUSR) {
        Ok(file) => File::from(file),
        // A symbolic link, another user's file (also fs.protected_regular), or a directory.
        Err(rustix::io::Errno::LOOP | rustix::io::Errno::ISDIR) => {
            return Err(ShmError::NotOurs { path: path.to_owned() });
        }
        Err(rustix::io::Errno::ACCESS) if path.exists() => {
            return Err(ShmError::NotOurs { path: path.to_owned() });
        }
        Err(errno) => return Err(unusable(path, errno.into())),
    };
    let status = file.metadata().map_err(|error| unusable(path, error))?;
    let ours = status.uid() == rustix::process::geteuid().as_raw();
    if !ours || !status.is_file() || status.mode() & 0o077 != 0 {
        return Err(ShmError::NotOurs { path: path.to_owned() });
    }
    let expected = size as u64;
    match status.len() {
        // A process that makes the file at the same time gives it the same size.
        0 => file.set_len(expected).map_err(|error| unusable(path, error))?,
        size if size == expected => {}
        size => return Err(ShmError::OtherSize { path: path.to_owned(), size, expected }),
    }
    Ok(file)
}

/// Returns true if `path` names `file`.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

/// Locks all `places`, or fails with `WouldBlock` if another file description holds one of them.
fn lock(file: &File, places: Range<usize>) -> io::Result<()> {
    call(file, libc::F_OFD_SETLK, &mut range(libc::F_WRLCK, places))
}

/// Unlocks `place`.
fn unlock(file: &File, place: usize) -> io::Result<()> {
    call(file, libc::F_OFD_SETLK, &mut range(libc::F_UNLCK, place..place + 1))
}

/// Returns true if another file description holds one of `places`.
fn is_taken(file: &File, places: Range<usize>) -> io::Result<bool> {
    let mut range = range(libc::F_WRLCK, places);
    call(file, libc::F_OFD_GETLK, &mut range)?;
    Ok(range.l_type != libc::F_UNLCK as libc::c_short)
}

fn range(kind: libc::c_int, places: Range<usize>) -> libc::flock {
    // SAFETY: `flock` is a structure of integers, for which all zeroes is a valid value (and
    // `l_pid` must be 0).
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind as libc::c_short;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    range.l_start = places.start as libc::off_t;
    range.l_len = places.len() as libc::off_t;
    range
}

/// Makes the call, which never waits: EAGAIN becomes `WouldBlock`.
fn call(file: &File, command: libc::c_int, range: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the descriptor is open because `file` is borrowed; `range` is a `struct flock` that
    // outlives the call, which reads it and, for F_OFD_GETLK, writes it.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut *range) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

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
    let file = open_existing(path)?;
    Ok(!is_taken(&file, all_places(&file)?)?)
}

/// Removes the file at `path` if no process uses it, and returns true if it did. No process can
/// join it meanwhile: one that tries waits a moment and makes the file again.
pub fn remove_left_over(path: &Path) -> Result<bool, ShmError> {
    let failed = |error| unusable(path, error);
    let file = match open_existing(path) {
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
fn open_existing(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// The reason memory cannot be shared.
#[derive(Debug, Error)]
pub enum ShmError {
    /// The file or the directory cannot be used.
    #[error(
        "{} cannot be shared between processes: {error}; a tmpfs that this user can write to must \
         be mounted there: mount -t tmpfs -o mode=1777 tmpfs /dev/shm", .path.display()
    )]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The system call's error.
        error: io::Error,
    },
    /// The file belongs to another user, is not a plain file, or other users may write to it.
    #[error(
        "{} is not a file of this user alone (mode 0600): have its owner remove it",
        .path.display()
    )]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// The file has another size: another version, or another program, made it.
    #[error(
        "{0} has {size} bytes instead of {expected}, so another version made it: end what uses it \
         (fuser {0}), then remove it", .path.display()
    )]
    OtherSize {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The expected size in bytes.
        expected: u64,
    },
    /// Live processes have all places.
    #[error("all {places} places in {} are taken by processes that run", .path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// The number of places.
        places: usize,
    },
}
