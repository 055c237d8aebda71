//! Notifying the maker of memory that no process has it any more.
//!
//! Memory is gone when no process has it mapped or holds a descriptor of it, including one of
//! O_PATH or one that lies in a socket. Then the kernel removes the unnamed file and reports that
//! (inotify(7), IN_DELETE_SELF). A lease (F_SETLEASE) would not do: it does not count descriptors
//! of O_PATH, which keep all pages.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use super::error::MemfdError;

/// The id of watched memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Watched(i32);

/// Reports which memory is gone.
///
/// ```
/// use punctual_linux::memfd::{Others, Presence, Writable};
///
/// let mut presence = Presence::new()?;
/// let (mapped, file) = Writable::create("example", 4096, Others::Write)?;
/// let watched = presence.watch(&file)?;
/// drop(file);
/// assert!(presence.gone().is_empty());
/// drop(mapped);
/// assert_eq!(presence.gone(), [watched]);
/// # Ok::<(), punctual_linux::memfd::MemfdError>(())
/// ```
#[derive(Debug)]
pub struct Presence {
    inotify: OwnedFd,
    there: BTreeSet<Watched>,
}

impl Presence {
    /// Makes one that watches nothing yet.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn new() -> Result<Self, MemfdError> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        let inotify = inotify.map_err(|errno| MemfdError::NotWatched { errno })?;
        Ok(Self { inotify, there: BTreeSet::new() })
    }

    /// Watches memory that this process has made, which is not gone before `file` is closed.
    ///
    /// # Errors
    /// If there are too many watches, or there is no /proc.
    pub fn watch(&mut self, file: impl AsFd) -> Result<Watched, MemfdError> {
        let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        let watched = inotify::add_watch(&self.inotify, path, WatchFlags::DELETE_SELF);
        let watched = Watched(watched.map_err(|errno| MemfdError::NotWatched { errno })?);
        self.there.insert(watched);
        Ok(watched)
    }

    /// Returns the memory that has gone since the last call. Does not wait.
    pub fn gone(&mut self) -> Vec<Watched> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let (mut gone, mut all_told) = (Vec::new(), true);
        while let Ok(event) = reader.next() {
            all_told &= !event.events().contains(ReadFlags::QUEUE_OVERFLOW);
            let watched = Watched(event.wd());
            // The kernel reports it twice: IN_IGNORED follows.
            if self.there.remove(&watched) {
                gone.push(watched);
            }
        }
        if !all_told && let Some(there) = self.listed() {
            gone.extend(self.there.difference(&there));
            self.there = there;
        }
        gone
    }

    /// Returns the memory that the kernel still watches (proc_pid_fdinfo(5)).
    fn listed(&self) -> Option<BTreeSet<Watched>> {
        let path = format!("/proc/self/fdinfo/{}", self.inotify.as_raw_fd());
        let text = std::fs::read_to_string(path).ok()?;
        let watched = |line: &str| {
            let number = line.strip_prefix("inotify wd:")?.split(' ').next()?;
            i32::from_str_radix(number, 16).ok().map(Watched)
        };
        Some(text.lines().filter_map(watched).collect())
    }
}
