//! Parsing of a datagram's destination from a `sockaddr`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

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
