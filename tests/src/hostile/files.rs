//! Makes open files that harm a server that closes or touches them.

use std::io::{ErrorKind, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration as Time;

use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};

/// A connected TCP socket whose last close waits for data that its peer never reads (socket(7),
/// SO_LINGER). The close in a process that exits does not wait.
#[derive(Debug)]
pub struct Lingering {
    socket: TcpStream,
    peer: TcpStream,
}

impl Lingering {
    /// Makes a socket whose last close takes `time`.
    ///
    /// # Errors
    /// Fails if no descriptors are left.
    pub fn new(time: Time) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        set_socket_recv_buffer_size(&listener, 4_096)?;
        let mut socket = TcpStream::connect(listener.local_addr()?)?;
        let (peer, _) = listener.accept()?;
        socket.set_nonblocking(true)?;
        loop {
            match socket.write(&[0; 16_384]) {
                Ok(_) => {}
                Err(full) if full.kind() == ErrorKind::WouldBlock => break,
                Err(other) => return Err(other),
            }
        }
        set_socket_linger(&socket, Some(time))?;
        Ok(Self { socket, peer })
    }

    /// Gives the socket and its peer away, so that the kernel closes the socket where it is last
    /// held. The peer must be kept open.
    #[must_use]
    pub fn into_parts(self) -> (OwnedFd, OwnedFd) {
        (self.socket.into(), self.peer.into())
    }
}

impl AsFd for Lingering {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
