//! The table of this program's UDP sockets, and of where they are connected.

use std::sync::atomic::{AtomicU64, Ordering};

/// The known state of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Not a UDP socket, or one that is left alone.
    Nothing,
    /// A UDP socket; its peer has to be looked up.
    Socket,
    /// Connected to the channel's destination.
    ToDestination,
    /// Connected to somewhere else.
    Elsewhere,
}

/// A table by descriptor number. It is read before every write(2) of the program, so a look-up is
/// one load; and from signal handlers, so there is no lock.
#[derive(Debug)]
pub(crate) struct Fds<const N: usize> {
    entries: [Entry; N],
}

#[derive(Debug)]
struct Entry {
    /// A `Known` in the lowest two bits; above them the number of the process that looked up the
    /// peer.
    known: AtomicU64,
    /// The socket's inode number, which distinguishes it from a later socket with the same number.
    inode: AtomicU64,
}

impl<const N: usize> Fds<N> {
    pub(crate) const fn new() -> Self {
        Self {
            entries: [const { Entry { known: AtomicU64::new(0), inode: AtomicU64::new(0) } }; N],
        }
    }

    fn entry(&self, fd: i32) -> Option<&Entry> {
        self.entries.get(usize::try_from(fd).ok()?)
    }

    /// Returns what the process `of` knows of `fd`.
    #[inline]
    pub(crate) fn known(&self, fd: i32, of: u64) -> Known {
        let word = self.entry(fd).map_or(0, |entry| entry.known.load(Ordering::Acquire));
        match word & 3 {
            0 => Known::Nothing,
            // A parent's entry is valid only for the parent's channel.
            2 if word >> 2 == of => Known::ToDestination,
            3 if word >> 2 == of => Known::Elsewhere,
            _ => Known::Socket,
        }
    }

    /// Returns true if it is known to be a UDP socket.
    #[inline]
    pub(crate) fn is_socket(&self, fd: i32) -> bool {
        self.entry(fd).is_some_and(|entry| entry.known.load(Ordering::Acquire) != 0)
    }

    /// Notes a new socket.
    pub(crate) fn made(&self, fd: i32, inode: u64) {
        if let Some(entry) = self.entry(fd) {
            entry.inode.store(inode, Ordering::Release);
            entry.known.store(1, Ordering::Release);
        }
    }

    /// Returns true if `fd` is still the socket with this inode number; otherwise forgets it.
    pub(crate) fn is_still(&self, fd: i32, inode: Option<u64>) -> bool {
        let Some(entry) = self.entry(fd) else { return false };
        let still = inode == Some(entry.inode.load(Ordering::Acquire));
        if !still {
            self.forget(fd);
        }
        still
    }

    /// Makes the peer be looked up again.
    pub(crate) fn reconnected(&self, fd: i32) {
        if let Some(entry) = self.entry(fd)
            && entry.known.load(Ordering::Acquire) != 0
        {
            entry.known.store(1, Ordering::Release);
        }
    }

    /// Notes where it is connected, for the process `of`.
    pub(crate) fn connected(&self, fd: i32, of: u64, to_destination: bool) {
        if let Some(entry) = self.entry(fd) {
            entry.known.store(of << 2 | if to_destination { 2 } else { 3 }, Ordering::Release);
        }
    }

    /// Notes that the number `copy` now refers to the same file as `fd`.
    pub(crate) fn copied(&self, fd: i32, copy: i32) {
        match (self.entry(fd), self.is_socket(fd)) {
            (Some(entry), true) => self.made(copy, entry.inode.load(Ordering::Acquire)),
            _ => self.forget(copy),
        }
    }

    pub(crate) fn forget(&self, fd: i32) {
        if let Some(entry) = self.entry(fd) {
            entry.known.store(0, Ordering::Release);
        }
    }
}
