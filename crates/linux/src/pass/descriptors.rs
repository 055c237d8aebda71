//! Open files in a message (unix(7), SCM_RIGHTS), and the reasons they could not be passed.
#![allow(unsafe_code)]

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use thiserror::Error;

/// The most descriptors in one message, for both sides. The kernel would take more (unix(7),
/// SCM_MAX_FD), but no caller needs more.
pub const MOST: usize = 16;

/// Sends `bytes` with `descriptors` over a connected Unix socket; the sender keeps its own. Waits
/// if the socket does; never raises SIGPIPE.
///
/// # Errors
/// If there are no bytes, no descriptors or more than [`MOST`], or the socket does not take them.
pub fn send(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), PassError> {
    if bytes.is_empty() {
        return Err(PassError::NoBytes);
    }
    let count = descriptors.len();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let rights = SendAncillaryMessage::ScmRights(descriptors);
    if count == 0 || count > MOST || !control.push(rights) {
        return Err(PassError::Count { count, most: MOST });
    }
    let iov = [IoSlice::new(bytes)];
    let sent = rustix::net::sendmsg(socket, &iov, &mut control, SendFlags::NOSIGNAL)?;
    if sent == bytes.len() { Ok(()) } else { Err(PassError::Partly { sent, bytes: bytes.len() }) }
}

/// Receives a message into `bytes`. Returns its length and up to `most` descriptors that came with
/// it, which are closed on drop and when a program is executed. Waits if the socket does.
///
/// Nothing is known about the descriptors. Closing one can take as long as its file system likes,
/// so a thread on which clients depend should receive none.
///
/// # Errors
/// If the message was truncated (the received descriptors are closed), the other side is gone, or
/// the socket has nothing and does not wait.
pub fn receive(
    socket: impl AsFd,
    bytes: &mut [u8],
    most: usize,
) -> Result<(usize, Vec<OwnedFd>), PassError> {
    let room = bytes.len();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut iov = [IoSliceMut::new(bytes)];
    let received = rustix::net::recvmsg(socket, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let descriptors: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    let cut = received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    if cut || descriptors.len() > most {
        return Err(PassError::Truncated { bytes: room, descriptors: most.min(MOST) });
    }
    if received.bytes == 0 && room > 0 {
        return Err(PassError::Gone);
    }
    Ok((received.bytes, descriptors))
}

/// Makes `socket`, and all connections accepted from it, refuse files: the sender gets EPERM. Files
/// that already wait in it stay. Returns true if the kernel supports this (SO_PASSRIGHTS, unix(7),
/// from Linux 6.16 on).
pub fn refuse_files(socket: impl AsFd) -> bool {
    /// Not in libc yet (asm-generic/socket.h).
    const SO_PASSRIGHTS: i32 = 83;
    let off: i32 = 0;
    // SAFETY: the option's value is an `int`, which the kernel reads and does not keep.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const off).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    outcome == 0
}

/// The reason descriptors could not be passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PassError {
    /// There are more descriptors than one message may have, or none.
    #[error("{count} descriptors cannot be passed in a message: pass 1 to {most}")]
    Count {
        /// The number given.
        count: usize,
        /// The largest number allowed.
        most: usize,
    },
    /// A message without bytes cannot carry descriptors over a stream.
    #[error("descriptors are passed with a message, which needs at least one byte")]
    NoBytes,
    /// The other side sent a longer message, or more descriptors; or RLIMIT_NOFILE left no room for
    /// them. The received descriptors are closed.
    #[error(
        "a message was longer than {bytes} bytes, had more than {descriptors} descriptors, or more \
         than this process may open (ulimit -n): close this connection, or raise that limit"
    )]
    Truncated {
        /// The bytes that there was room for.
        bytes: usize,
        /// The descriptors that there was room for.
        descriptors: usize,
    },
    /// Only part of the message fitted.
    #[error("only {sent} of {bytes} bytes were taken: close this connection, it is out of step")]
    Partly {
        /// The bytes that were taken.
        sent: usize,
        /// The bytes of the message.
        bytes: usize,
    },
    /// The socket has nothing to receive, or no room, and does not wait.
    #[error("the socket would have to wait: poll it first")]
    WouldWait,
    /// The other side has closed the connection.
    #[error("the other side has closed the connection: connect anew")]
    Gone,
    /// Any other error.
    #[error("passing descriptors failed: {0}")]
    Failed(Errno),
}

impl From<Errno> for PassError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::AGAIN => Self::WouldWait,
            Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => Self::Gone,
            errno => Self::Failed(errno),
        }
    }
}
