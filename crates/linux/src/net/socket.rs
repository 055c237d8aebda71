//! A UDP socket: one family, non-blocking, with its error queue open.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use punctual_model::time::Instant;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::error::OpenError;
use super::raw;
use crate::clock;

/// The parameters of a socket.
///
/// ```
/// use punctual_linux::net::{Setup, UdpSocket};
///
/// let receiver = UdpSocket::open(&Setup::at("127.0.0.1:0".parse()?))?;
/// let here = receiver.local_address()?;
/// let sender = UdpSocket::open(&Setup::to(here))?;
/// assert_eq!(sender.remote_address(), Some(here));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The address at which it receives; port 0 means any free one.
    pub local: SocketAddr,
    /// The only peer, if the socket is connected.
    pub remote: Option<SocketAddr>,
    /// The one interface that it uses (SO_BINDTODEVICE); `None` means any.
    pub device: Option<String>,
    /// Lets several sockets share one address (SO_REUSEPORT): the kernel spreads flows over them.
    pub share_port: bool,
}

impl Setup {
    /// Returns the setup of a socket that receives at `local`, from any peer.
    pub fn at(local: SocketAddr) -> Self {
        Self { local, remote: None, device: None, share_port: false }
    }

    /// Returns the setup of a socket connected to `remote`, from any port.
    pub fn to(remote: SocketAddr) -> Self {
        let local = match remote {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        Self { remote: Some(remote), ..Self::at(local) }
    }

    /// Returns the same, on this interface only.
    pub fn on(self, device: &str) -> Self {
        Self { device: Some(device.to_owned()), ..self }
    }
}

/// The event to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// A datagram, or a notice.
    Readable,
    /// Room to send, or a notice.
    Writable,
}

/// A UDP socket (udp(7)). It waits only in [`wait`](Self::wait); it can be polled through [`AsFd`].
///
/// It never lets the kernel fragment (IP_PMTUDISC_DO): a datagram too long for the path is refused
/// with the path's MTU. Its error queue is open (IP_RECVERR), so that reports by routers and peers
/// about sent datagrams arrive as [`Notice`](super::Notice)s.
#[derive(Debug)]
pub struct UdpSocket {
    fd: OwnedFd,
    v6: bool,
    remote: Option<SocketAddr>,
    device: Option<String>,
}

impl UdpSocket {
    /// Opens it in the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel's error, with what to do.
    pub fn open(setup: &Setup) -> Result<Self, OpenError> {
        let v6 = setup.local.is_ipv6();
        if let Some(remote) = setup.remote.filter(|remote| remote.is_ipv6() != v6) {
            return Err(OpenError::MixedFamilies { local: setup.local, remote });
        }
        let family = if v6 { AddressFamily::INET6 } else { AddressFamily::INET };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)
            .map_err(|errno| of_open("socket(2)", setup, errno))?;
        let failed = |call| move |errno| of_open(call, setup, errno);
        if v6 {
            sockopt::set_ipv6_v6only(&fd, true).map_err(failed("IPV6_V6ONLY"))?;
        }
        if setup.share_port {
            sockopt::set_socket_reuseport(&fd, true).map_err(failed("SO_REUSEPORT"))?;
        }
        if let Some(device) = &setup.device {
            raw::set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_BINDTODEVICE, device.as_bytes())
                .map_err(failed("SO_BINDTODEVICE"))?;
        }
        let (level, errors, discover, never) = if v6 {
            (
                libc::IPPROTO_IPV6,
                libc::IPV6_RECVERR,
                libc::IPV6_MTU_DISCOVER,
                libc::IPV6_PMTUDISC_DO,
            )
        } else {
            (libc::IPPROTO_IP, libc::IP_RECVERR, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)
        };
        raw::set_int(fd.as_fd(), level, errors, 1).map_err(failed("IP_RECVERR"))?;
        raw::set_int(fd.as_fd(), level, discover, never).map_err(failed("IP_MTU_DISCOVER"))?;
        rustix::net::bind(&fd, &setup.local).map_err(failed("bind(2)"))?;
        if let Some(remote) = setup.remote {
            rustix::net::connect(&fd, &remote).map_err(failed("connect(2)"))?;
        }
        Ok(Self { fd, v6, remote: setup.remote, device: setup.device.clone() })
    }

    /// Returns the address at which it receives.
    ///
    /// # Errors
    /// If the kernel does not report it.
    pub fn local_address(&self) -> Result<SocketAddr, OpenError> {
        let failed = |errno| OpenError::Failed { call: "getsockname(2)", errno };
        let address = rustix::net::getsockname(&self.fd).map_err(failed)?;
        SocketAddr::try_from(address).map_err(failed)
    }

    /// Returns the peer, if it is connected.
    pub fn remote_address(&self) -> Option<SocketAddr> {
        self.remote
    }

    /// Returns the one interface that it uses, if it is bound to one.
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// Returns true if its family is IPv6.
    pub fn is_v6(&self) -> bool {
        self.v6
    }

    /// Returns the length of the headers of IP and UDP before each payload: 28 bytes, or 48.
    pub fn header_bytes(&self) -> u32 {
        if self.v6 { 48 } else { 28 }
    }

    /// Waits until it is ready, a notice has come, or it is `until`. Returns true for the first
    /// two.
    ///
    /// poll(2) has no absolute time-out, so the rest is computed again after each signal.
    ///
    /// # Errors
    /// If the kernel is out of memory.
    pub fn wait(&self, what: Readiness, until: Instant) -> Result<bool, Errno> {
        let events = match what {
            Readiness::Readable => PollFlags::IN,
            Readiness::Writable => PollFlags::OUT,
        };
        loop {
            let rest = until.saturating_since(clock::now());
            let rest = clock::timespec(rest.as_nanos());
            match rustix::event::poll(&mut [PollFd::new(&self.fd, events)], Some(&rest)) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn of_open(call: &'static str, setup: &Setup, errno: Errno) -> OpenError {
    match (errno, setup.remote, &setup.device) {
        (Errno::ADDRINUSE, ..) => OpenError::Taken { local: setup.local },
        (Errno::ADDRNOTAVAIL, ..) => OpenError::NotOurs { local: setup.local },
        (Errno::NODEV, _, Some(device)) => OpenError::NoDevice { device: device.clone() },
        (Errno::NETUNREACH | Errno::HOSTUNREACH, Some(remote), _) => OpenError::NoRoute { remote },
        (Errno::AFNOSUPPORT, ..) => {
            OpenError::NoFamily { family: if setup.local.is_ipv6() { "IPv6" } else { "IPv4" } }
        }
        (Errno::PERM | Errno::ACCESS, ..) => OpenError::Forbidden { call },
        (errno, ..) => OpenError::Failed { call, errno },
    }
}
