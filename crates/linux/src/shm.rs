//! Memory that processes share by the name of a file, with a place in it for each of them.
//!
//! A place belongs to whoever holds the lock on its byte of the file (an open file description
//! lock, fcntl(2)). The kernel drops the lock when the holder ends, however it ends, so nobody has
//! to find out whether an owner still lives, and a recycled process id confuses nobody. The last
//! one to leave removes the file. Only a process that was killed while it was alone leaves it
//! there, for the next to use and remove.
//!
//! What is in the memory is written by others and can be anything; it is only ever seen as atomics,
//! which have no invalid value. A file that another process of the same user cuts short while we
//! use it would kill us (SIGBUS, mmap(2)): nobody else may write to it.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use punctual_model::time::Duration;
use rustix::fs::{Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::futex;
use thiserror::Error;

use crate::clock;

/// Where named shared memory lives (shm_overview(7)).
const DIRECTORY: &str = "/dev/shm";

/// For how long the last one to leave may hold all places before they count as taken.
const LEAVING: Duration = Duration::from_millis(50);

/// Why memory cannot be shared.
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
        /// Of the system call.
        error: io::Error,
    },
    /// It is another user's, no plain file, or others may write to it.
    #[error(
        "{} is not a file of this user alone (mode 0600): have its owner remove it",
        .path.display()
    )]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// Left by another version, or by something else.
    #[error(
        "{0} has {size} bytes instead of {expected}, so another version made it: end what uses it \
         (fuser {0}), then remove it", .path.display()
    )]
    OtherSize {
        /// The file.
        path: PathBuf,
        /// What it has.
        size: u64,
        /// What it should have.
        expected: u64,
    },
    /// Each place is taken by a live process.
    #[error("all {places} places in {} are taken by processes that run", .path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// How many.
        places: usize,
    },
}

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
    /// Each has a bell of 4 bytes after the words.
    places: usize,
    place: usize,
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
            let file = open(path, size(words, places))?;
            let place = (0..places).find_map(|place| match lock(&file, place, 1) {
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
                let map = map(&file, size(words, places)).map_err(|e| unusable(path, e))?;
                return Ok(Self { path: path.to_owned(), file, map, words, places, place });
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

    fn bells(&self) -> &[AtomicU32] {
        // SAFETY: `words * 8` bytes into the map, so aligned to 8; `places * 4` bytes follow
        // there (`size`); else as for `words`, whose bytes these are not.
        unsafe {
            let after = self.map.as_ptr().add(self.words * 8).cast::<AtomicU32>();
            slice::from_raw_parts(after, self.places)
        }
    }

    /// Rings the bell of `place`: whoever waits there in [`Self::wait_for_bell`] wakes.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn ring(&self, place: usize) {
        let bell = &self.bells()[place];
        bell.fetch_add(1, Ordering::Release);
        let _ = futex::wake(bell, futex::Flags::empty(), 1);
    }

    /// How often the bell of our own place has rung (modulo 2^32).
    pub fn rung(&self) -> u32 {
        self.bells()[self.place].load(Ordering::Acquire)
    }

    /// Sleeps until the bell of our place has rung since it was `rung`. May wake without cause.
    pub fn wait_for_bell(&self, rung: u32) {
        // Every outcome is decided by looking again.
        let _ = futex::wait(&self.bells()[self.place], futex::Flags::empty(), rung, None);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: what `map` gave, with the same size; `self` is not used again.
        let _ =
            unsafe { rustix::mm::munmap(self.map.as_ptr().cast(), size(self.words, self.places)) };
        // First our own: of two that leave at once, the later one finds no lock but its own.
        let _ = unlock(&self.file, self.place);
        if lock(&self.file, 0, self.places).is_ok() && is_at(&self.file, &self.path) {
            // Whoever opened it meanwhile and waits for a place sees that it is gone.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn size(words: usize, places: usize) -> usize {
    words * 8 + places * 4
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

fn lock(file: &File, first: usize, places: usize) -> io::Result<()> {
    set_lock(file, libc::F_WRLCK, first, places)
}

fn unlock(file: &File, place: usize) -> io::Result<()> {
    set_lock(file, libc::F_UNLCK, place, 1)
}

/// F_OFD_SETLK: never waits (EAGAIN is `WouldBlock`).
fn set_lock(file: &File, kind: libc::c_int, first: usize, places: usize) -> io::Result<()> {
    // SAFETY: a structure of integers, for which all zeroes is a value (and `l_pid` must be 0).
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind as libc::c_short;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    range.l_start = first as libc::off_t;
    range.l_len = places as libc::off_t;
    // SAFETY: an open file; `range` outlives the call, which only reads it.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const range) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn scratch() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("table");
        (directory, path)
    }

    #[test]
    fn places_differ_come_back_and_the_last_one_removes_the_file() {
        let (_directory, path) = scratch();
        let first = Shared::join(&path, 4, 3).expect("the first");
        let second = Shared::join(&path, 4, 3).expect("the second");
        assert_eq!((first.place(), second.place()), (0, 1));
        first.words()[3].store(7, Ordering::Relaxed);
        assert_eq!(second.words()[3].load(Ordering::Relaxed), 7);
        drop(first);
        assert!(path.exists());
        let third = Shared::join(&path, 4, 3).expect("there is room");
        assert_eq!(third.place(), 0, "the place of the one that left");
        drop((second, third));
        assert!(!path.exists());
    }

    #[test]
    fn a_full_file_is_said_to_be_full() {
        let (_directory, path) = scratch();
        let all = [(); 3].map(|()| Shared::join(&path, 1, 3).expect("room"));
        let refused = Shared::join(&path, 1, 3).expect_err("no room");
        assert!(matches!(refused, ShmError::Full { places: 3, .. }), "{refused}");
        drop(all);
        assert!(!path.exists());
        Shared::join(&path, 1, 3).expect("room again");
    }

    #[test]
    fn many_come_and_go_at_once_and_leave_nothing() {
        let (_directory, path) = scratch();
        let comes_and_goes = || {
            for _ in 0..300 {
                let shared = Shared::join(&path, 2, 64).expect("room");
                let before = shared.words()[0].fetch_add(1, Ordering::AcqRel);
                assert!(before < 10_000, "not another file's");
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(comes_and_goes);
            }
        });
        assert!(!path.exists());
    }

    #[test]
    fn a_bell_wakes_who_waits_for_it() {
        let (_directory, path) = scratch();
        let (waiter, ringer) =
            (Shared::join(&path, 1, 2).expect("room"), Shared::join(&path, 1, 2).expect("room"));
        let rung = waiter.rung();
        let place = waiter.place();
        let thread = std::thread::spawn(move || {
            while waiter.rung() == rung {
                waiter.wait_for_bell(rung);
            }
        });
        ringer.ring(place);
        thread.join().expect("no panic");
    }

    #[test]
    fn what_is_not_ours_is_refused_by_name() {
        let (directory, path) = scratch();
        let refused = Shared::join(&directory.path().join("none/table"), 1, 1).expect_err("absent");
        assert!(matches!(refused, ShmError::Unusable { .. }), "{refused}");

        fs::write(&path, "short").expect("writes");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("ours");
        let refused = Shared::join(&path, 1, 1).expect_err("another size");
        assert!(matches!(refused, ShmError::OtherSize { size: 5, expected: 12, .. }), "{refused}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o622)).expect("ours");
        let refused = Shared::join(&path, 1, 1).expect_err("others write");
        assert!(matches!(refused, ShmError::NotOurs { .. }), "{refused}");

        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("links");
        let refused = Shared::join(&link, 1, 1).expect_err("a link");
        assert!(matches!(refused, ShmError::NotOurs { .. }), "{refused}");
        assert!(refused.to_string().contains("link"), "{refused}");
    }
}
