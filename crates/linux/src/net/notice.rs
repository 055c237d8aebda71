//! Reports by the kernel, routers and peers about sent datagrams: the error queue (ip(7),
//! IP_RECVERR).

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;

use rustix::io::Errno;

use super::address::Name;
use super::control::{Message, Messages};
use super::error::{ReceiveError, errno_of};
use super::raw;
use super::socket::UdpSocket;
use super::stamps::WallStamp;

/// The length of `sock_extended_err` (linux/errqueue.h); the reporter's address follows.
const EXTENDED: usize = 16;
/// SO_EE_ORIGIN_TXTIME: a departure time could not be met.
const ORIGIN_DEPARTURE: u8 = 6;

/// One entry of the error queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A datagram did not arrive, or will not.
    Fault(Fault),
    /// A datagram passed a place where it was stamped.
    Sent(SentStamp),
}

/// A datagram that did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The reason.
    pub kind: FaultKind,
    /// The destination.
    pub to: Option<SocketAddr>,
    /// The reporter: a router or the peer; `None` is this host itself.
    pub by: Option<IpAddr>,
}

/// The reason a datagram did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The datagram was longer than the path's MTU. Reported by ICMPv6's "packet too big" or ICMP's
    /// "fragmentation needed" (RFC 1191, RFC 8201), or by this host's interface.
    MtuChanged {
        /// The MTU in bytes, headers included.
        mtu: u32,
    },
    /// The port has no listener.
    PortUnreachable,
    /// There is no route, or the host does not answer ARP or neighbour discovery.
    HostUnreachable,
    /// A firewall on the path forbids it.
    Prohibited,
    /// It went through too many routers.
    TimeExceeded,
    /// Its departure time had passed, or was not understood.
    DepartureMissed,
    /// Any other reason: ICMP's type and code, and the error to which the kernel maps it.
    Other {
        /// errno(3).
        errno: Errno,
        /// ICMP type.
        kind: u8,
        /// ICMP code.
        code: u8,
    },
}

/// The time at which a datagram passed a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentStamp {
    /// The datagram's number, counted from 0 since stamps were requested, modulo 2³².
    pub number: u32,
    /// The place.
    pub place: StampPlace,
    /// The time.
    pub at: WallStamp,
}

/// The place at which a sent datagram was stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampPlace {
    /// On entering the queueing discipline.
    Queued,
    /// On being handed to the driver.
    Sent,
}

impl UdpSocket {
    /// Takes the oldest notice. `None` if there is none that is understood.
    ///
    /// A socket with notices is readable and writable to poll(2), with POLLERR.
    ///
    /// # Errors
    /// If the queue cannot be read.
    pub fn take_notice(&self) -> Result<Option<Notice>, ReceiveError> {
        // The datagram's beginning comes back, too, and is not needed.
        let mut payload = [0; 1];
        while let Some((envelope, outcome)) =
            raw::receive_error(self.as_fd(), &mut payload).map_err(ReceiveError::Failed)?
        {
            let to = envelope.name.written(outcome.name_len);
            if let Some(notice) = Notice::parse(envelope.control.written(outcome.control_len), to) {
                return Ok(Some(notice));
            }
        }
        Ok(None)
    }
}

impl Notice {
    /// Parses the control messages (cmsg(3)) of an entry about a datagram that was sent to `to`.
    pub fn parse(control: &[u8], to: Option<SocketAddr>) -> Option<Self> {
        let is = |level, kind| move |m: &Message<'_>| m.level == level && m.kind == kind;
        let messages = || Messages::of(control);
        let stamp = messages().find(is(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING));
        let error = messages().find(|message| {
            is(libc::SOL_IP, libc::IP_RECVERR)(message)
                || is(libc::SOL_IPV6, libc::IPV6_RECVERR)(message)
        })?;
        let bytes = error.data.get(..EXTENDED)?;
        let (origin, kind, code) = (bytes[4], bytes[5], bytes[6]);
        let (info, data) = (error.word(2)?, error.word(3)?);
        if origin == libc::SO_EE_ORIGIN_TIMESTAMPING {
            // SCM_TSTAMP_SND and SCM_TSTAMP_SCHED (linux/errqueue.h).
            let place = match info {
                0 => StampPlace::Sent,
                1 => StampPlace::Queued,
                _ => return None,
            };
            let at = WallStamp::of(&stamp?)?;
            return Some(Self::Sent(SentStamp { number: data, place, at }));
        }
        let errno = errno_of(error.word(0)?.into());
        let kind = fault_kind(origin, kind, code, info, errno);
        let by = Name::parse(&error.data[EXTENDED..]).map(|address| address.ip());
        Some(Self::Fault(Fault { kind, to, by }))
    }
}

/// Maps the types and codes of RFC 792 and RFC 4443.
fn fault_kind(origin: u8, kind: u8, code: u8, info: u32, errno: Errno) -> FaultKind {
    match (origin, kind, code) {
        (libc::SO_EE_ORIGIN_LOCAL, ..) if errno == Errno::MSGSIZE => {
            FaultKind::MtuChanged { mtu: info }
        }
        (libc::SO_EE_ORIGIN_ICMP, 3, 4) | (libc::SO_EE_ORIGIN_ICMP6, 2, _) => {
            FaultKind::MtuChanged { mtu: info }
        }
        (libc::SO_EE_ORIGIN_ICMP, 3, 3) | (libc::SO_EE_ORIGIN_ICMP6, 1, 4) => {
            FaultKind::PortUnreachable
        }
        (libc::SO_EE_ORIGIN_ICMP, 3, 9 | 10 | 13) | (libc::SO_EE_ORIGIN_ICMP6, 1, 1 | 5) => {
            FaultKind::Prohibited
        }
        (libc::SO_EE_ORIGIN_ICMP, 3, 0 | 1 | 5 | 6 | 7) | (libc::SO_EE_ORIGIN_ICMP6, 1, _) => {
            FaultKind::HostUnreachable
        }
        (libc::SO_EE_ORIGIN_ICMP, 11, _) | (libc::SO_EE_ORIGIN_ICMP6, 3, _) => {
            FaultKind::TimeExceeded
        }
        (ORIGIN_DEPARTURE, ..) => FaultKind::DepartureMissed,
        _ => FaultKind::Other { errno, kind, code },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::control::Control;

    #[test]
    fn an_invalid_error_number_becomes_eproto() {
        for raw in [0, 1 << 12, 0x1500_0000, u32::MAX] {
            let mut error = [0; EXTENDED];
            error[..4].copy_from_slice(&raw.to_ne_bytes());
            let mut control = Control::<64>::EMPTY;
            control.push(libc::SOL_IP, libc::IP_RECVERR, &error);
            let notice = Notice::parse(control.written(control.len()), None);
            let kind = FaultKind::Other { errno: Errno::PROTO, kind: 0, code: 0 };
            assert_eq!(notice, Some(Notice::Fault(Fault { kind, to: None, by: None })), "{raw}");
        }
    }
}
