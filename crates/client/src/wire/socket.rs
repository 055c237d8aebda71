//! Sequenced packets over a Unix socket (unix(7)).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration as Time;
use std::{fs, io};

use punctual_linux::pass::{self, PassError};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    bind, connect, listen, recv, send, socket_with,
};
use thiserror::Error;

/// The longest message in either direction, in bytes.
pub const MAX_MESSAGE: usize = 64 * 1024;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

fn new_socket(flags: SocketFlags) -> rustix::io::Result<OwnedFd> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags | SocketFlags::CLOEXEC, None)
}

/// The socket to which clients connect.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    /// `None` if the service manager made it.
    name: Option<Name>,
}

/// The name of a socket in the file system, which is removed when this is dropped.
#[derive(Debug)]
pub struct Name(PathBuf);

impl Drop for Name {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The time within which a running broker must answer.
const PATIENCE: Time = Time::from_secs(1);

impl Listener {
    /// Listens at `path`, to which every user may connect: the quota decides what each may have.
    ///
    /// A socket that a dead broker left there is replaced, even if some process of it still holds
    /// the other end.
    ///
    /// # Errors
    /// If a broker answers there, or the kernel refuses.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let address = SocketAddrUnix::new(path)?;
        let fd = new_socket(SocketFlags::NONBLOCK)?;
        match bind(&fd, &address) {
            Err(Errno::ADDRINUSE) if !Socket::is_answered(path) => {
                fs::remove_file(path)?;
                bind(&fd, &address)?;
            }
            other => other?,
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
        listen(&fd, BACKLOG)?;
        Ok(Self { fd, name: Some(Name(path.to_owned())) })
    }

    /// Returns the socket and its name. The name is removed when that value is dropped.
    pub fn into_parts(self) -> (OwnedFd, Option<Name>) {
        (self.fd, self.name)
    }

    /// Makes a listener of a socket that listens already.
    ///
    /// # Errors
    /// If ioctl(2) cannot make it non-blocking.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self { fd, name: None })
    }

    /// Returns the next connection, if one waits.
    ///
    /// # Errors
    /// If accept4(2) fails.
    pub fn accept(&self) -> rustix::io::Result<Option<Socket>> {
        Self::accept_from(&self.fd)
    }

    /// Returns the next connection to a listening socket, if one waits.
    ///
    /// # Errors
    /// If accept4(2) fails.
    pub fn accept_from(listener: impl AsFd) -> rustix::io::Result<Option<Socket>> {
        match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(fd) => Ok(Some(Socket { fd })),
            Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => Ok(None),
            Err(other) => Err(other),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The result of a receive call.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A message of this many bytes at the start of the buffer.
    Message(usize),
    /// No message is there yet.
    Nothing,
    /// The other end is gone.
    Closed,
}

/// The reason why nothing can be received any more.
#[derive(Debug, Error)]
pub enum ReceiveError {
    /// The message is too long.
    #[error("a message of {length} bytes, and {MAX_MESSAGE} is the most")]
    TooLong {
        /// Its length.
        length: usize,
    },
    /// The message is too long, or has too many files.
    #[error("a message of more than {MAX_MESSAGE} bytes, or with more than {files} open files")]
    TooMuch {
        /// The most files.
        files: usize,
    },
    /// Any other error of recv(2).
    #[error("recv(2) failed: {0}")]
    Failed(#[from] Errno),
}

/// One end of a connection.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
}

impl Socket {
    /// Wraps a connected socket.
    pub fn of(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// Returns whether a broker at `path` answers a greeting.
    fn is_answered(path: &Path) -> bool {
        let greeted = || -> io::Result<Received> {
            let socket = Self::connect_within(path, PATIENCE)?;
            set_socket_timeout(&socket.fd, Timeout::Recv, Some(PATIENCE))?;
            socket.send(br#"{"id":1,"ask":{"hello":{"version":1}}}"#)?;
            socket.receive(&mut vec![0; MAX_MESSAGE], true).map_err(io::Error::other)
        };
        matches!(greeted(), Ok(Received::Message(_)))
    }

    /// Connects to the broker at `path`. From here on, sends block until there is room.
    ///
    /// # Errors
    /// If no broker listens there.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let fd = new_socket(SocketFlags::empty())?;
        connect(&fd, &SocketAddrUnix::new(path)?)?;
        Ok(Self { fd })
    }

    /// Connects like [`Self::connect`], but waits no longer than `patience` if the broker does not
    /// accept.
    ///
    /// # Errors
    /// If no broker listens there, or it does not accept in time.
    pub fn connect_within(path: &Path, patience: Time) -> io::Result<Self> {
        let socket = Self::unconnected(patience)?;
        connect(&socket.fd, &SocketAddrUnix::new(path)?)?;
        Ok(socket)
    }

    /// Returns a socket that another process is to connect; the kernel then names that process as
    /// the peer ([`punctual_linux::process::introduce_on_exec`]). Connecting and sending wait for
    /// `patience`.
    ///
    /// # Errors
    /// If the kernel refuses a socket or its timeout.
    pub fn unconnected(patience: Time) -> io::Result<Self> {
        let fd = new_socket(SocketFlags::empty())?;
        set_socket_timeout(&fd, Timeout::Send, Some(patience))?;
        Ok(Self { fd })
    }

    /// Sends one message whole, or returns `false` if there is no room for it now.
    ///
    /// # Errors
    /// If the other end is gone, or send(2) fails otherwise.
    pub fn send(&self, message: &[u8]) -> rustix::io::Result<bool> {
        loop {
            match send(&self.fd, message, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(true),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(other) => return Err(other),
            }
        }
    }

    /// Sends a message with open files, if there are any. Returns `false` if there is no room for
    /// it now.
    ///
    /// # Errors
    /// If the other end is gone, or sendmsg(2) fails otherwise.
    pub fn send_whole(&self, message: &[u8], files: &[OwnedFd]) -> Result<bool, PassError> {
        if files.is_empty() {
            return Ok(self.send(message)?);
        }
        let files: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        match pass::send(&self.fd, message, &files) {
            Ok(()) => Ok(true),
            Err(PassError::WouldWait) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// Returns the next message and leaves it in the socket. Never waits.
    ///
    /// # Errors
    /// If the message is too long, or recv(2) fails.
    pub fn peek(&self, buffer: &mut [u8]) -> Result<Received, ReceiveError> {
        self.receive_as(buffer, RecvFlags::DONTWAIT | RecvFlags::PEEK)
    }

    /// Receives one message into `buffer`, and up to `most` open files that came with it. Never
    /// waits.
    ///
    /// The files can be of any kind, and closing one may take as long as its file system needs.
    ///
    /// # Errors
    /// If the message is too long or has too many files, or recvmsg(2) fails.
    pub fn receive_with(
        &self,
        buffer: &mut [u8],
        most: usize,
    ) -> Result<(Received, Vec<OwnedFd>), ReceiveError> {
        let room = buffer.len().min(MAX_MESSAGE);
        match pass::receive(&self.fd, &mut buffer[..room], most) {
            Ok((length, files)) => Ok((Received::Message(length), files)),
            Err(PassError::WouldWait) => Ok((Received::Nothing, Vec::new())),
            Err(PassError::Gone) => Ok((Received::Closed, Vec::new())),
            Err(PassError::Truncated { .. }) => Err(ReceiveError::TooMuch { files: most }),
            Err(PassError::Failed(errno)) => Err(errno.into()),
            // Errors of sending only.
            Err(PassError::Count { .. } | PassError::NoBytes | PassError::Partly { .. }) => {
                Err(Errno::INVAL.into())
            }
        }
    }

    /// Receives one message into `buffer`, which has room for [`MAX_MESSAGE`] bytes.
    ///
    /// Blocks only if `wait` and the socket is a client's.
    ///
    /// # Errors
    /// If the message is too long, or recv(2) fails.
    pub fn receive(&self, buffer: &mut [u8], wait: bool) -> Result<Received, ReceiveError> {
        let wait = if wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        self.receive_as(buffer, wait)
    }

    fn receive_as(&self, buffer: &mut [u8], flags: RecvFlags) -> Result<Received, ReceiveError> {
        loop {
            match recv(&self.fd, &mut *buffer, flags | RecvFlags::TRUNC) {
                // An empty packet cannot be told from the end of the connection.
                Ok((_, 0)) => return Ok(Received::Closed),
                Ok((_, length)) if length > buffer.len().min(MAX_MESSAGE) => {
                    return Err(ReceiveError::TooLong { length });
                }
                Ok((_, length)) => return Ok(Received::Message(length)),
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET | Errno::PIPE) => return Ok(Received::Closed),
                Err(other) => return Err(other.into()),
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
