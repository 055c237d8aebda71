//! Memory that processes share by the name of a file, with a place in it for each of them.
//!
//! A place belongs to whoever holds the lock on its byte of the file (an open file description
//! lock, fcntl(2)). The kernel drops the lock when the holder ends, however it ends, so nobody has
//! to find out whether an owner still lives, and a recycled process id confuses nobody. The last
//! one to leave removes the file. Only processes that were killed while no other had a place leave
//! it there: the next one uses and removes it, and [`left_over`] finds and [`remove_left_over`]
//! removes it meanwhile.
//!
//! A child made by fork(2) shares its parent's file description, and so keeps the parent's place
//! after it, until the child ends or executes a program. It never gives the place back itself.
//!
//! What is in the memory is written by others and can be anything; it is only ever seen as atomics,
//! which have no invalid value. A file that another process of the same user cuts short while we
//! use it would kill us (SIGBUS, mmap(2)): nobody else may write to it.
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
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::AtomicU64;

use punctual_model::time::Duration;
use rustix::fs::{Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::process::Pid;

use crate::clock;

pub use error::ShmError;
pub use left_over::{left_over, remove_left_over};
use lock::{is_taken, lock, unlock};

/// Where named shared memory lives (shm_overview(7)).
const DIRECTORY: &str = "/dev/shm";

/// For how long the last one to leave may hold all places before they count as taken.
const LEAVING: Duration = Duration::from_millis(50);

/// The file of this user with this name: `/dev/shm/punctual-<uid>.<name>`.
pub fn path(name: &str) -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    Path::new(DIRECTORY).join(format!("punctual-{user}.{name}"))
}

/// A place in shared memory, until it is dropped.
#[derive(Debug)]
pub struct Shared {
    path: PathBuf,
    file: File,
    map: NonNull<u8>,
    /// Of 8 bytes, at the beginning of the map.
    words: usize,
    places: usize,
    place: usize,
    /// Who joined. Not a child of its that has a copy of this.
    process: Pid,
}

// SAFETY: the map is only seen as atomics, and is unmapped only by drop.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Takes the first free of `places` in the file at `path`, which is made if it is not there,
    /// with `words` words of zero.
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
                // Perhaps the last one to leave holds them all, on its way to remove the file.
                None => {
                    clock::sleep(LEAVING / 100);
                    continue;
                }
            };
            // The last one to leave may have removed it between our two steps.
            if is_at(&file, path) {
                let map = map(&file, size(words)).map_err(|error| unusable(path, error))?;
                let process = rustix::process::getpid();
                let path = path.to_owned();
                return Ok(Self { path, file, map, words, places, place, process });
            }
        }
    }

    /// Which place is ours: no other live process has the same.
    pub fn place(&self) -> usize {
        self.place
    }

    /// The words, shared with all.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the map is page-aligned, `words * 8` bytes of it or more are mapped readable and
        // writable until drop, any bytes are a valid `AtomicU64`, and nobody in this process sees
        // them as anything else.
        unsafe { slice::from_raw_parts(self.map.as_ptr().cast::<AtomicU64>(), self.words) }
    }

    /// If nobody has `place`, calls `vacate`, and nobody can take it meanwhile. Whether that was so;
    /// our own place is never vacant. Two or three system calls.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn if_vacant(&self, place: usize, vacate: impl FnOnce()) -> bool {
        assert!(place < self.places, "one of the places");
        // The kernel would grant us a second lock on what we have.
        if place == self.place || lock(&self.file, place..place + 1).is_err() {
            return false;
        }
        vacate();
        // Fails only if the file is no file; then nobody else can lock it either.
        let _ = unlock(&self.file, place);
        true
    }

    /// Whether somebody else has `place`. One system call.
    pub fn is_taken(&self, place: usize) -> bool {
        place != self.place && is_taken(&self.file, place..place + 1).unwrap_or(false)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: what `map` gave, with the same size; `self` is not used again.
        let _ = unsafe { rustix::mm::munmap(self.map.as_ptr().cast(), size(self.words)) };
        // In a child made by fork(2) the place is still its parent's.
        if self.process != rustix::process::getpid() {
            return;
        }
        // First our own: of two that leave at once, the later one finds no lock but its own.
        let _ = unlock(&self.file, self.place);
        if lock(&self.file, 0..self.places).is_ok() && is_at(&self.file, &self.path) {
            // Whoever opened it meanwhile and waits for a place sees that it is gone.
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

/// Opens or makes the file and looks whether it is what we want.
fn open(path: &Path, size: usize) -> Result<File, ShmError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags | OFlags::NONBLOCK, Mode::RUSR | Mode::WUSR) {
        Ok(file) => File::from(file),
        // A symbolic link; another user's file (also fs.protected_regular); a directory.
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
        // Whoever makes it at the same time makes it the same size.
        0 => file.set_len(expected).map_err(|error| unusable(path, error))?,
        size if size == expected => {}
        size => return Err(ShmError::OtherSize { path: path.to_owned(), size, expected }),
    }
    Ok(file)
}

/// Whether `path` names `file`.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

fn map(file: &File, size: usize) -> io::Result<NonNull<u8>> {
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: a new mapping where the kernel likes, of a file that is `size` long.
    let map = unsafe { rustix::mm::mmap(std::ptr::null_mut(), size, protection, flags, file, 0)? };
    NonNull::new(map.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))
}
