//! What processes that are not trusted ring to wake one that serves many.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::EventfdFlags;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use super::PassError;

/// A bell that its maker only watches, and anybody else rings.
///
/// An eventfd(2). Its maker neither reads nor writes it: it is told of each ring by epoll(7), because
/// every write is an edge of its own, whether or not anybody reads in between. So whoever else holds it
/// can change its flags, read it, fill it or wait for it in any number of places, and delays nobody who
/// watches it: the call that rings does all the work, and rings that are lost so are its own.
///
/// A peer can ring as often as it likes: each time costs one wake-up.
#[derive(Debug)]
pub struct Doorbell {
    event: OwnedFd,
}

impl Doorbell {
    /// Makes one.
    ///
    /// # Errors
    /// Those of eventfd(2): too many open files.
    pub fn new() -> Result<Self, PassError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self { event: rustix::event::eventfd(0, flags)? })
    }

    /// Takes one that was received from its maker, to ring it.
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

    /// Wakes whoever watches it. Does not wait, unless somebody else has made it wait.
    ///
    /// # Errors
    /// If it is no eventfd.
    pub fn ring(&self) -> Result<(), PassError> {
        loop {
            return match rustix::io::write(&self.event, &1_u64.to_ne_bytes()) {
                // Full: after 2⁶⁴ rings, or because another holder wrote so much.
                Ok(_) | Err(Errno::AGAIN) => Ok(()),
                Err(Errno::INTR) => continue,
                Err(errno) => Err(errno.into()),
            };
        }
    }

    /// Has `epoll` tell each ring from here on, and one for rings before.
    ///
    /// # Errors
    /// Those of epoll_ctl(2), EPOLL_CTL_ADD.
    pub fn watch(&self, epoll: impl AsFd, data: EventData) -> Result<(), PassError> {
        Ok(epoll::add(epoll, &self.event, data, EventFlags::IN | EventFlags::ET)?)
    }

    /// Has `epoll` tell nothing of it any more.
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
