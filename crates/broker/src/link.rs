//! The roles of the processes beside the broker, and the links to them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use punctual_linux::pass::{self, PassError};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::kernel::privileges::PrivilegeError;

/// The longest message between two parts, in bytes: a client's message and its envelope.
pub const MAX_LINK: usize = punctual_client::wire::MAX_MESSAGE + 1024;

/// A role of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Handles the sockets of clients, and everything that comes over them.
    Front,
    /// Watches use, and acts on overuse.
    Guard,
    /// Holds whole programs.
    Dispatcher,
}

impl Part {
    /// All parts with their names on the command line.
    pub const NAMES: [(&'static str, Self); 3] =
        [("front", Self::Front), ("guard", Self::Guard), ("dispatcher", Self::Dispatcher)];

    /// Returns the part of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, part)| part)
    }

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Front => "front",
            Self::Guard => "guard",
            Self::Dispatcher => "dispatcher",
        }
    }

    /// Starts the part and returns it with this process's end of the link, which never blocks.
    ///
    /// # Errors
    /// Those of socketpair(2), fork(2) and execve(2).
    pub fn spawn(self, mut command: Command) -> io::Result<(Child, Link)> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        let child = command.stdin(Stdio::from(theirs)).spawn()?;
        Ok((child, Link { socket: ours }))
    }
}

/// One end of a socket between the broker and one of its parts.
#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
}

/// The reason why a link can no longer be used.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The process at the other end has ended.
    #[error("the process at the other end has ended")]
    Gone,
    /// The other end does not read its messages.
    #[error("the process at the other end does not keep up")]
    Full,
    /// The other end sent a message out of order.
    #[error("the process at the other end does not keep to the order of messages")]
    OutOfOrder,
    /// The other end sent a message that no version of this program sends.
    #[error("the process at the other end does not make sense: {0}")]
    Nonsense(postcard::Error),
    /// The kernel refused.
    #[error("the link failed: {0}")]
    Failed(Errno),
    /// The part cannot do its work here.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
}

impl From<Errno> for LinkError {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        Self::Failed(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

impl From<PassError> for LinkError {
    fn from(error: PassError) -> Self {
        match error {
            PassError::Gone => Self::Gone,
            PassError::WouldWait => Self::Full,
            PassError::Failed(errno) => Self::Failed(errno),
            _ => Self::Failed(Errno::MSGSIZE),
        }
    }
}

impl Link {
    /// Returns the end that this process was started with, as its standard input. It blocks.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub fn of_parent() -> io::Result<Self> {
        Ok(Self { socket: io::stdin().as_fd().try_clone_to_owned()? })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// [`LinkError::Full`] if this end does not block and there is no room.
    pub fn send(&self, message: &impl Serialize) -> Result<(), LinkError> {
        self.send_with(message, &[])
    }

    /// Sends a message with open files, which the sender keeps too.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_with(
        &self,
        message: &impl Serialize,
        files: &[BorrowedFd<'_>],
    ) -> Result<(), LinkError> {
        let bytes = postcard::to_allocvec(message).map_err(LinkError::Nonsense)?;
        if !files.is_empty() {
            return Ok(pass::send(&self.socket, &bytes, files)?);
        }
        loop {
            return match send(&self.socket, &bytes, SendFlags::NOSIGNAL) {
                Ok(_) => Ok(()),
                Err(Errno::INTR) => continue,
                Err(errno) => Err(PassError::from(errno).into()),
            };
        }
    }

    /// Receives the next message; `None` if this end does not block and no message is there. The
    /// kernel closes any files that come with it: only a compromised part sends any.
    ///
    /// # Errors
    /// If the other end is gone, or the message makes no sense.
    pub fn receive<T: DeserializeOwned>(&self, buffer: &mut [u8]) -> Result<Option<T>, LinkError> {
        let length = loop {
            match recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Err(LinkError::Gone),
                Ok((length, _)) => break length,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => return Err(PassError::from(errno).into()),
            }
        };
        postcard::from_bytes(&buffer[..length]).map(Some).map_err(LinkError::Nonsense)
    }

    /// Receives the next message with the open files that came with it.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn receive_with<T: DeserializeOwned>(
        &self,
        buffer: &mut [u8],
    ) -> Result<(T, Vec<OwnedFd>), LinkError> {
        let (length, files) = pass::receive(&self.socket, buffer, pass::MOST)?;
        let message = postcard::from_bytes(&buffer[..length]).map_err(LinkError::Nonsense)?;
        Ok((message, files))
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
