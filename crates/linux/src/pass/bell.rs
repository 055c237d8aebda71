//! Bells: one with which a process wakes another ([`Bell`]), and one with which untrusted processes
//! wake a process that serves many ([`Doorbell`]).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use punctual_model::time::Instant;
use rustix::event::epoll::{EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, epoll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::PassError;
use crate::clock;

/// The number of rings that one call silences.
const SILENCED: usize = 64;

/// One end of a pair of bells: a ring at one end is heard at the other.
///
/// It is a pair of connected Unix sockets, with a byte for each ring. Each end has its own flags
/// and detects that the other process has ended, even if that ends between publishing something and
/// ringing for it. No call here waits, whatever the flags, except [`Self::wait`].
///
/// If the processes do not trust each other, the server makes the pair and rings its end from a
/// thread on which no other client depends. The other side can slow a ring down by what waits for
/// it (epoll(7)) and by signals that it has requested (fcntl(2), F_SETOWN). The server never
/// receives from its end: a byte may come with an open file, and closing that may take as long as
/// its sender likes. For the other direction there is the [`Doorbell`].
///
/// A peer can ring as often as it likes: each time costs one wake-up, and one call silences 64.
#[derive(Debug)]
pub struct Bell {
    socket: OwnedFd,
}

/// The outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// It was rung, and is silent again.
    Rung,
    /// The time came first.
    TimedOut,
    /// The other end is closed, and all earlier rings have been heard.
    Closed,
}

impl Bell {
    /// Makes two ends, one of which is to be passed on.
    ///
    /// ```
    /// use punctual_linux::pass::{Bell, WaitOutcome};
    /// use punctual_model::time::Instant;
    ///
    /// let (ours, theirs) = Bell::pair()?;
    /// theirs.ring()?;
    /// assert_eq!(ours.wait(Instant::MAX)?, WaitOutcome::Rung);
    /// drop(theirs);
    /// assert_eq!(ours.wait(Instant::MAX)?, WaitOutcome::Closed);
    /// # Ok::<(), punctual_linux::pass::PassError>(())
    /// ```
    ///
    /// # Errors
    /// Those of socketpair(2): too many open files.
    pub fn pair() -> Result<(Self, Self), PassError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let stream = SocketType::STREAM;
        let (a, b) = rustix::net::socketpair(AddressFamily::UNIX, stream, flags, None)?;
        Ok((Self { socket: a }, Self { socket: b }))
    }

    /// Makes this end ring only. Sends by the other end are refused from now on (EPIPE,
    /// shutdown(2)), so that no foreign file waits in here to be closed.
    ///
    /// ```
    /// use punctual_linux::pass::{Bell, WaitOutcome, PassError};
    /// use punctual_model::time::Instant;
    ///
    /// let (ours, theirs) = Bell::pair()?;
    /// ours.only_ring()?;
    /// assert_eq!(theirs.ring(), Err(PassError::Gone));
    /// ours.ring()?;
    /// assert_eq!(theirs.wait(Instant::MAX)?, WaitOutcome::Rung);
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// Those of shutdown(2).
    pub fn only_ring(&self) -> Result<(), PassError> {
        Ok(rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Read)?)
    }

    /// Takes an end that was received. If it is not the end of a bell, its calls fail or ring
    /// something else, but they wait no longer for it.
    ///
    /// # Errors
    /// If it is not a stream socket of the Unix domain.
    pub fn of(socket: OwnedFd) -> Result<Self, PassError> {
        let is_unix = rustix::net::sockopt::socket_domain(&socket)? == AddressFamily::UNIX;
        if is_unix && rustix::net::sockopt::socket_type(&socket)? == SocketType::STREAM {
            Ok(Self { socket })
        } else {
            Err(PassError::Failed(Errno::NOTSOCK))
        }
    }

    /// Wakes the other end. Does not wait: if the socket is full, the other end has rings to hear
    /// already.
    ///
    /// # Errors
    /// If the other end is closed.
    pub fn ring(&self) -> Result<(), PassError> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            return match rustix::net::send(&self.socket, &[1], flags) {
                Ok(_) | Err(Errno::AGAIN) => Ok(()),
                Err(Errno::INTR) => continue,
                Err(errno) => Err(errno.into()),
            };
        }
    }

    /// Takes back rings that were not waited for. Call it before checking for work, never after
    /// announcing sleep. Does not wait.
    ///
    /// # Errors
    /// If the other end is closed, and there was no ring.
    pub fn silence(&self) -> Result<(), PassError> {
        self.take().map(|_| ())
    }

    /// Waits until it is rung, until [`clock::now`] is at least `until`, or until the other end is
    /// closed; then silences it.
    ///
    /// # Errors
    /// Those of poll(2).
    pub fn wait(&self, until: Instant) -> Result<WaitOutcome, PassError> {
        loop {
            match self.take() {
                Ok(0) => {}
                Ok(_) => return Ok(WaitOutcome::Rung),
                Err(PassError::Gone) => return Ok(WaitOutcome::Closed),
                Err(error) => return Err(error),
            }
            let now = clock::now();
            if now >= until {
                return Ok(WaitOutcome::TimedOut);
            }
            let left = clock::timespec((until - now).as_nanos());
            // Some hosts' kernels refuse the end of time as a time-out.
            let left = (until < Instant::MAX).then_some(&left);
            match rustix::event::poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], left) {
                // The next turn of the loop finds out what ended it.
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Takes back rings and returns their number.
    fn take(&self) -> Result<usize, PassError> {
        let mut rings = [0; SILENCED];
        loop {
            return match rustix::net::recv(&self.socket, &mut rings, RecvFlags::DONTWAIT) {
                Ok((0, _)) => Err(PassError::Gone),
                Ok((count, _)) => Ok(count),
                Err(Errno::AGAIN) => Ok(0),
                Err(Errno::INTR) => continue,
                Err(errno) => Err(errno.into()),
            };
        }
    }
}

/// For polling together with other descriptors: readable once rung.
impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl From<Bell> for OwnedFd {
    fn from(bell: Bell) -> Self {
        bell.socket
    }
}

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
