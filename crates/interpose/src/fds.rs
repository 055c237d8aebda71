//! Which descriptors are UDP sockets of this program, and where they are connected.

use std::sync::atomic::{AtomicU64, Ordering};

/// What is known of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It is no UDP socket, or one that we leave alone.
    Nothing,
    /// A UDP socket; where it is connected is to be asked.
    Socket,
    /// Connected to the channel's destination.
    ToDestination,
    /// Connected to somewhere else.
    Elsewhere,
}

/// A table by number. It is read before every write(2) of the program, so a look is a load; and from
/// signal handlers, so there is no lock.
#[derive(Debug)]
pub(crate) struct Fds<const N: usize> {
    entries: [Entry; N],
}

#[derive(Debug)]
struct Entry {
    /// A `Known` in the lowest two bits; above them the process for which it is known where it is
    /// connected.
    known: AtomicU64,
    /// The socket's inode number: what tells it from the next with this number.
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

    /// What is known of `fd` by the process `of`.
    #[inline]
    pub(crate) fn known(&self, fd: i32, of: u64) -> Known {
        let word = self.entry(fd).map_or(0, |entry| entry.known.load(Ordering::Acquire));
        match word & 3 {
            0 => Known::Nothing,
            // What a parent found out is where *its* channel leads.
            2 if word >> 2 == of => Known::ToDestination,
            3 if word >> 2 == of => Known::Elsewhere,
            _ => Known::Socket,
        }
    }

    /// Whether it is a UDP socket as far as is known.
    #[inline]
    pub(crate) fn is_socket(&self, fd: i32) -> bool {
        self.entry(fd).is_some_and(|entry| entry.known.load(Ordering::Acquire) != 0)
    }

    /// A socket was made.
    pub(crate) fn made(&self, fd: i32, inode: u64) {
        if let Some(entry) = self.entry(fd) {
            entry.inode.store(inode, Ordering::Release);
            entry.known.store(1, Ordering::Release);
        }
    }

    /// Whether `fd` is still the socket with this inode number; if not it is forgotten.
    pub(crate) fn is_still(&self, fd: i32, inode: Option<u64>) -> bool {
        let Some(entry) = self.entry(fd) else { return false };
        let still = inode == Some(entry.inode.load(Ordering::Acquire));
        if !still {
            self.forget(fd);
        }
        still
    }

    /// To be asked again where it is connected.
    pub(crate) fn reconnected(&self, fd: i32) {
        if let Some(entry) = self.entry(fd)
            && entry.known.load(Ordering::Acquire) != 0
        {
            entry.known.store(1, Ordering::Release);
        }
    }

    /// Where it is connected, for the process `of`.
    pub(crate) fn connected(&self, fd: i32, of: u64, to_destination: bool) {
        if let Some(entry) = self.entry(fd) {
            entry.known.store(of << 2 | if to_destination { 2 } else { 3 }, Ordering::Release);
        }
    }

    /// `copy` is the same socket as `fd`, or what it was is closed.
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
