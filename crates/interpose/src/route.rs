//! The destination of a datagram, parsed from a `sockaddr`, and the choice between the channel and
//! the socket for it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd as _, BorrowedFd};

use punctual_linux::clock;
use punctual_model::{Duration, Instant};
use rustix::fs::{FileType, OFlags};
use rustix::net::sockopt::{Timeout, socket_timeout};

use crate::fds::{Fds, Known};
use crate::process::Process;

/// Flags that mean the same for a channel; the others request something that only the socket does.
const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_CONFIRM;

/// Parses the bytes of a `sockaddr` (ip(7), ipv6(7)). Returns `None` for another family, too few
/// bytes, or a scope, which means something only on the socket that it was made for.
pub(crate) fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    let at = |from: usize, count: usize| bytes.get(from..from + count);
    let family = i32::from(u16::from_ne_bytes(at(0, 2)?.try_into().ok()?));
    let port = u16::from_be_bytes(at(2, 2)?.try_into().ok()?);
    let ip = match family {
        libc::AF_INET => {
            // The kernel insists on the 16 bytes of the whole structure.
            at(0, 16)?;
            IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(at(4, 4)?).ok()?))
        }
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(<[u8; 16]>::try_from(at(8, 16)?).ok()?);
            // Programs by RFC 2133 have no scope.
            if at(24, 4).is_some_and(|scope| scope != [0; 4]) {
                return None;
            }
            IpAddr::V6(ip)
        }
        _ => return None,
    };
    Some(plain(SocketAddr::new(ip, port)))
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Returns true if a channel can lead there: to one host, and not to its name service, which
/// programs ask before they send their real datagrams.
pub(crate) fn is_worth_a_channel(to: SocketAddr) -> bool {
    const NAMES: u16 = 53;
    let one_host = match to.ip() {
        IpAddr::V4(v4) => !v4.is_multicast() && !v4.is_broadcast() && !v4.is_unspecified(),
        IpAddr::V6(v6) => !v6.is_multicast() && !v6.is_unspecified(),
    };
    one_host && to.port() != 0 && to.port() != NAMES
}

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
        peer => Some(plain(peer)),
    }
}
