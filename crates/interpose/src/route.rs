//! The choice between the channel and the socket for each datagram.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use punctual_linux::clock;
use punctual_model::{Duration, Instant};
use rustix::fs::{FileType, OFlags};
use rustix::net::sockopt::{Timeout, socket_timeout};

use crate::address;
use crate::fds::{Fds, Known};
use crate::process::Process;

/// A datagram that a program sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram {
    /// The destination, if the call has one; `Err` for an address to which no channel can lead.
    pub(crate) to: Result<Option<SocketAddr>, ()>,
    pub(crate) bytes: usize,
    /// The flags of send(2).
    pub(crate) flags: i32,
    /// True if there is control data with it.
    pub(crate) control: bool,
}

/// Flags that mean the same for a channel; the others request something that only the socket does.
const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_CONFIRM;

/// Returns true if the datagram is to go into the channel.
pub(crate) fn is_for_channel<const N: usize>(
    process: &Process,
    fds: &Fds<N>,
    fd: BorrowedFd<'_>,
    datagram: Datagram,
) -> bool {
    let Datagram { to, bytes, flags, control } = datagram;
    let (number, of) = (fd.as_raw_fd(), process.number());
    let Ok(to) = to else { return false };
    let known = fds.known(number, of);
    if known == Known::Nothing || flags & !FLAGS != 0 || control {
        return false;
    }
    if to.is_none() && known == Known::Elsewhere {
        return false;
    }
    if !fds.is_still(number, inode(fd)) {
        return false;
    }
    let leads = match (to, known) {
        (Some(to), _) => process.leads(to),
        (None, Known::ToDestination) => true,
        (None, _) => {
            // Not connected: let the kernel return its usual error.
            let Some(peer) = peer(fd) else { return false };
            let leads = process.leads(peer);
            fds.connected(number, of, leads);
            leads
        }
    };
    leads && process.is_of_a_good_size(bytes)
}

/// Returns the inode number of a socket.
pub(crate) fn inode(fd: BorrowedFd<'_>) -> Option<u64> {
    let found = rustix::fs::fstat(fd).ok()?;
    (FileType::from_raw_mode(found.st_mode) == FileType::Socket).then_some(found.st_ino)
}

/// Returns until when a call may wait for room, or `None` if it may not wait.
pub(crate) fn patience(fd: BorrowedFd<'_>, flags: i32) -> Option<Instant> {
    let never_waits = flags & libc::MSG_DONTWAIT != 0
        || rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK));
    if never_waits {
        return None;
    }
    let longest = socket_timeout(fd, Timeout::Send).ok().flatten();
    Some(longest.map_or(Instant::MAX, |longest| {
        let nanos = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        clock::now().saturating_add(Duration::from_nanos(nanos))
    }))
}

fn peer(fd: BorrowedFd<'_>) -> Option<SocketAddr> {
    let peer = SocketAddr::try_from(rustix::net::getpeername(fd).ok()??).ok()?;
    match peer {
        SocketAddr::V6(v6) if v6.scope_id() != 0 => None,
        peer => Some(address::plain(peer)),
    }
}
