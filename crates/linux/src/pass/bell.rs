//! What a process rings to wake another.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use punctual_model::time::Instant;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::PassError;
use crate::clock;

/// Rings that are silenced by one call.
const SILENCED: usize = 64;

/// One end of a pair of bells: to ring is to be heard at the other end.
///
/// A pair of connected Unix sockets, and a byte for each ring. Each end has its own flags and is told of
/// the death of the other, also if that dies between publishing something and ringing for it; and no call
/// here waits by itself, whatever the flags, but [`Self::wait`].
///
/// Between processes that do not trust each other the one that is depended on makes the pair, and rings
/// its end from a thread on which nobody else depends: the other side can make a ring take long, by what
/// waits for it (epoll(7)) and by signals that it has asked for (fcntl(2), F_SETOWN). It never receives
/// from its end, because a byte may come with an open file, and to close that may take as long as whoever
/// sent it likes. In the other direction there is the [`Doorbell`](super::Doorbell).
///
/// A peer can ring as often as it likes: each time costs one wake-up, silenced 64 at a time.
#[derive(Debug)]
pub struct Bell {
    socket: OwnedFd,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It was rung, and is silent again.
    Ring,
    /// The time came first.
    Nothing,
    /// Nobody is left at the other end, and what was rung before is heard.
    Gone,
}

impl Bell {
    /// Two ends, of which one is to be passed on.
    ///
    /// ```
    /// use punctual_linux::pass::{Bell, Heard};
    /// use punctual_model::time::Instant;
    ///
    /// let (ours, theirs) = Bell::pair()?;
    /// theirs.ring()?;
    /// assert_eq!(ours.wait(Instant::MAX)?, Heard::Ring);
    /// drop(theirs);
    /// assert_eq!(ours.wait(Instant::MAX)?, Heard::Gone);
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

    /// Makes this end ring only. What the other end sends from here on is refused (EPIPE, shutdown(2)), so
    /// that no file of a stranger waits in here to be closed.
    ///
    /// ```
    /// use punctual_linux::pass::{Bell, Heard, PassError};
    /// use punctual_model::time::Instant;
    ///
    /// let (ours, theirs) = Bell::pair()?;
    /// ours.only_ring()?;
    /// assert_eq!(theirs.ring(), Err(PassError::Gone));
    /// ours.ring()?;
    /// assert_eq!(theirs.wait(Instant::MAX)?, Heard::Ring);
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// Those of shutdown(2).
    pub fn only_ring(&self) -> Result<(), PassError> {
        Ok(rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Read)?)
    }

    /// An end that was received. If it is something else than the end of a bell, its calls fail, or
    /// ring something else; they wait no longer for it.
    ///
    /// # Errors
    /// If it is no stream socket of the Unix domain.
    pub fn of(socket: OwnedFd) -> Result<Self, PassError> {
        let is_unix = rustix::net::sockopt::socket_domain(&socket)? == AddressFamily::UNIX;
        if is_unix && rustix::net::sockopt::socket_type(&socket)? == SocketType::STREAM {
            Ok(Self { socket })
        } else {
            Err(PassError::Failed(Errno::NOTSOCK))
        }
    }

    /// Wakes the other end. Does not wait: if it has not heard many rings, it will hear them.
    ///
    /// # Errors
    /// If nobody is there.
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

    /// Takes back rings that were not waited for. To be called before looking for what they were
    /// rung for, never after saying that one sleeps. Does not wait.
    ///
    /// # Errors
    /// If nobody is at the other end, and nothing was rung.
    pub fn silence(&self) -> Result<(), PassError> {
        self.take().map(|_| ())
    }

    /// Waits until it is rung, until [`clock::now`] is at least `until`, or until nobody is left who
    /// could ring it; then silences it.
    ///
    /// # Errors
    /// Those of poll(2).
    pub fn wait(&self, until: Instant) -> Result<Heard, PassError> {
        loop {
            match self.take() {
                Ok(0) => {}
                Ok(_) => return Ok(Heard::Ring),
                Err(PassError::Gone) => return Ok(Heard::Gone),
                Err(error) => return Err(error),
            }
            let now = clock::now();
            if now >= until {
                return Ok(Heard::Nothing);
            }
            let left = clock::timespec((until - now).as_nanos());
            // The end of time is beyond what the kernel takes as a time-out on some hosts.
            let left = (until < Instant::MAX).then_some(&left);
            match rustix::event::poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], left) {
                // Whatever ended it is found by looking again.
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// How many rings it took back.
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

/// To poll, beside others: readable when it was rung.
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
