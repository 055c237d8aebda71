//! A bell with which untrusted processes wake one that serves many.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::EventfdFlags;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use super::PassError;

/// A bell that its maker only watches and other processes ring.
///
/// It is an eventfd(2). Its maker neither reads nor writes it, but gets an event of epoll(7) for
/// each ring: every write is an edge of its own, whether or not it is read in between. So another
/// holder can change its flags, read it, fill it or wait for it in any number of places, and delays
/// no watcher: the call that rings does all the work, and only the misbehaving holder's rings are
/// lost.
///
/// A peer can ring as often as it likes: each time costs one wake-up.
#[derive(Debug)]
pub struct Doorbell {
    event: OwnedFd,
}

impl Doorbell {
    /// Makes a doorbell.
    ///
    /// # Errors
    /// Those of eventfd(2): too many open files.
    pub fn new() -> Result<Self, PassError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self { event: rustix::event::eventfd(0, flags)? })
    }

    /// Takes a doorbell that was received from its maker, to ring it.
    pub fn of(event: OwnedFd) -> Self {
        Self { event }
    }

    /// Returns another descriptor of it, to pass on.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub fn copy(&self) -> Result<OwnedFd, PassError> {
        Ok(rustix::io::fcntl_dupfd_cloexec(&self.event, 0)?)
    }

    /// Wakes its watcher. Does not wait, unless another holder has cleared O_NONBLOCK.
    ///
    /// # Errors
    /// If it is not an eventfd.
    pub fn ring(&self) -> Result<(), PassError> {
        loop {
            return match rustix::io::write(&self.event, &1_u64.to_ne_bytes()) {
                // Full: after 2⁶⁴ rings, or because another holder wrote that much.
                Ok(_) | Err(Errno::AGAIN) => Ok(()),
                Err(Errno::INTR) => continue,
                Err(errno) => Err(errno.into()),
            };
        }
    }

    /// Makes `epoll` report each ring from now on, and once any earlier rings.
    ///
    /// # Errors
    /// Those of epoll_ctl(2), EPOLL_CTL_ADD.
    pub fn watch(&self, epoll: impl AsFd, data: EventData) -> Result<(), PassError> {
        Ok(epoll::add(epoll, &self.event, data, EventFlags::IN | EventFlags::ET)?)
    }

    /// Makes `epoll` stop reporting it.
    ///
    /// # Errors
    /// Those of epoll_ctl(2), EPOLL_CTL_DEL.
    pub fn unwatch(&self, epoll: impl AsFd) -> Result<(), PassError> {
        Ok(epoll::delete(epoll, &self.event)?)
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl From<Doorbell> for OwnedFd {
    fn from(bell: Doorbell) -> Self {
        bell.event
    }
}
