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

mod error;
mod left_over;
mod lock;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use punctual_model::time::Duration;
use rustix::fs::{Mode, OFlags};
use rustix::mm::MapFlags;
use rustix::process::Pid;

use crate::clock;
use crate::mapping::Mapping;

pub use error::ShmError;
pub use left_over::{left_over, remove_left_over};
use lock::{is_taken, lock, unlock};

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
