//! The errors of sockets, as sentences that say what to do.

use std::net::SocketAddr;

use rustix::io::Errno;
use thiserror::Error;

/// The reason a socket was not opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// EADDRINUSE.
    #[error(
        "{local} is taken by another socket of this network namespace: choose another port, or set \
         share_port on every socket of it"
    )]
    Taken {
        /// The requested address.
        local: SocketAddr,
    },
    /// EADDRNOTAVAIL.
    #[error("{local} is no address of this host: `ip address` shows those that are")]
    NotOurs {
        /// The requested address.
        local: SocketAddr,
    },
    /// ENODEV.
    #[error(
        "there is no interface {device} in this network namespace: `ip link` shows those there are"
    )]
    NoDevice {
        /// The requested interface.
        device: String,
    },
    /// ENETUNREACH and EHOSTUNREACH of connect(2).
    #[error("no route leads to {remote}: is the link up, and is there a route (`ip route get`)?")]
    NoRoute {
        /// The requested peer.
        remote: SocketAddr,
    },
    /// EAFNOSUPPORT.
    #[error("this kernel has no {family}: it was built without it, or booted with ipv6.disable=1")]
    NoFamily {
        /// "IPv4" or "IPv6".
        family: &'static str,
    },
    /// A check of ours: a socket has one family.
    #[error("{local} and {remote} are of different families: a socket has one")]
    MixedFamilies {
        /// The local address.
        local: SocketAddr,
        /// The peer.
        remote: SocketAddr,
    },
    /// EACCES or EPERM.
    #[error(
        "not permitted ({call}): ports below net.ipv4.ip_unprivileged_port_start need \
         CAP_NET_BIND_SERVICE, interfaces of already bound sockets CAP_NET_RAW"
    )]
    Forbidden {
        /// The system call.
        call: &'static str,
    },
    /// Any other error.
    #[error("{call} failed: {errno}")]
    Failed {
        /// The system call.
        call: &'static str,
        /// Its error.
        errno: Errno,
    },
}

/// The reason a socket's option was not set or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OptionError {
    /// ENOPROTOOPT or EOPNOTSUPP.
    #[error("this kernel has no {option}; it needs {needs}")]
    Unsupported {
        /// The option's name in C.
        option: &'static str,
        /// The kernel version, or the feature, that it needs.
        needs: &'static str,
    },
    /// EPERM or EACCES.
    #[error("{option} is not permitted: it needs {needs}")]
    Forbidden {
        /// The option's name in C.
        option: &'static str,
        /// The capability.
        needs: &'static str,
    },
    /// A check of ours, or EINVAL.
    #[error("{option} does not take {value}")]
    OutOfRange {
        /// The option's name in C.
        option: &'static str,
        /// The requested value.
        value: u64,
    },
    /// ENOTCONN.
    #[error("{option} is known only of a connected socket: give a remote address when opening it")]
    NotConnected {
        /// The option's name in C.
        option: &'static str,
    },
    /// A check of ours: the kernel would accept the option.
    #[error(
        "{option} was not seen at work on the interface to which this socket is bound: bind it to the \
         one on which a probe saw it"
    )]
    NotSeen {
        /// The option's name in C.
        option: &'static str,
    },
    /// Any other error.
    #[error("{option} failed: {errno}")]
    Failed {
        /// The option's name in C.
        option: &'static str,
        /// The error.
        errno: Errno,
    },
}

/// Explains an errno of setsockopt(2) or getsockopt(2).
pub(super) fn of_option(
    option: &'static str,
    needs: &'static str,
    value: u64,
) -> impl Fn(Errno) -> OptionError {
    move |errno| match errno {
        Errno::NOPROTOOPT | Errno::OPNOTSUPP => OptionError::Unsupported { option, needs },
        Errno::PERM | Errno::ACCESS => OptionError::Forbidden { option, needs },
        Errno::INVAL | Errno::DOM | Errno::RANGE => OptionError::OutOfRange { option, value },
        Errno::NOTCONN => OptionError::NotConnected { option },
        errno => OptionError::Failed { option, errno },
    }
}

/// The reason nothing was sent. It may be the error of an earlier datagram, once: the kernel keeps
/// that as the socket's pending error and returns it from the next call (ip(7), IP_RECVERR).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// EAGAIN: the send buffer is full.
    #[error("the send buffer is full: wait until the socket is writable")]
    Full,
    /// ENOBUFS: a queueing discipline or the driver dropped it.
    #[error("the interface's queue is full and dropped the datagram: send slower than the link")]
    QueueFull,
    /// EMSGSIZE.
    #[error(
        "{bytes} bytes are more than one datagram may hold on this path{}: send shorter datagrams",
        mtu_text(*.mtu)
    )]
    TooLong {
        /// The payload of the datagram, or of one segment of a train.
        bytes: usize,
        /// The path's MTU with all headers, if the socket is connected.
        mtu: Option<u32>,
    },
    /// ECONNREFUSED: an earlier datagram was answered by ICMP.
    #[error(
        "the answer to an earlier datagram says that no program listens at the peer's port: send again when one does"
    )]
    Refused,
    /// EHOSTUNREACH, ENETUNREACH: no route here, or a router's answer to an earlier datagram.
    #[error(
        "the peer cannot be reached ({errno}): is the link up, and is there a route? `take_notice` returns the sender of this answer"
    )]
    Unreachable {
        /// The errno.
        errno: Errno,
    },
    /// ENETDOWN, ENODEV, ENXIO.
    #[error("the interface is down or gone ({errno}): wait until it is up (`net::watch`)")]
    LinkDown {
        /// The errno.
        errno: Errno,
    },
    /// EADDRNOTAVAIL, or EINVAL for a source address that was removed.
    #[error("the socket's own address is no longer one of this host: open another socket")]
    AddressGone,
    /// A check of ours, by the kernel's UDP_MAX_SEGMENTS and the datagram's length.
    #[error(
        "{segments} segments of {bytes} bytes in all are more than one train holds (64, and 65,507 bytes): send several"
    )]
    TrainTooLong {
        /// Datagrams in the train.
        segments: usize,
        /// Payload in all.
        bytes: usize,
    },
    /// EIO: no checksum offload on this interface.
    #[error(
        "this interface cannot send trains (UDP_SEGMENT needs checksum offload, and no IPsec): send one datagram at a time"
    )]
    NoTrains,
    /// EPERM: netfilter or a BPF program of the control group.
    #[error("a firewall rule of this host discards it")]
    Filtered,
    /// EDESTADDRREQ, ENOTCONN.
    #[error("no destination: connect the socket, or name one in each datagram")]
    NoDestination,
    /// Any other error.
    #[error("sendmsg(2) failed: {0}")]
    Failed(Errno),
}

fn mtu_text(mtu: Option<u32>) -> String {
    mtu.map_or(String::new(), |mtu| format!(", whose MTU is {mtu}"))
}

impl SendError {
    /// Returns true if the caller only has to wait until the socket is writable.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full)
    }
}

/// The reason nothing was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReceiveError {
    /// The pending error of a datagram sent before: `take_notice` has it in full. Receive again.
    #[error("something sent earlier met {0}: read the notices, and receive again")]
    Pending(Errno),
    /// Any other error.
    #[error("recvmsg(2) failed: {0}")]
    Failed(Errno),
}

/// Converts an error number that the kernel wrote into a message; an invalid number becomes EPROTO.
pub(super) fn errno_of(raw: i64) -> Errno {
    match i32::try_from(raw) {
        Ok(raw @ 1..=4095) => Errno::from_raw_os_error(raw),
        _ => Errno::PROTO,
    }
}
