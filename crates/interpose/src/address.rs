//! Where a datagram goes, out of a `sockaddr`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The address in the bytes of a `sockaddr` (ip(7), ipv6(7)). None: of another family, too short, or
/// with a scope, which means something only on the socket that it was made for.
pub(crate) fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    let at = |from: usize, count: usize| bytes.get(from..from + count);
    let family = i32::from(u16::from_ne_bytes(at(0, 2)?.try_into().ok()?));
    let port = u16::from_be_bytes(at(2, 2)?.try_into().ok()?);
    let ip = match family {
        libc::AF_INET => {
            // The whole structure has 16 bytes, and the kernel insists on it.
            at(0, 16)?;
            IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(at(4, 4)?).ok()?))
        }
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(<[u8; 16]>::try_from(at(8, 16)?).ok()?);
            // Without a scope in the programs of RFC 2133.
            if at(24, 4).is_some_and(|scope| scope != [0; 4]) {
                return None;
            }
            IpAddr::V6(ip)
        }
        _ => return None,
    };
    Some(plain(SocketAddr::new(ip, port)))
}

/// An IPv4 address as one, also where a socket of IPv6 says it.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Whether a channel can lead there: one host, and a service that is not the names of hosts, which
/// programs ask for before they send what they are there for.
pub(crate) fn is_worth_a_channel(to: SocketAddr) -> bool {
    const NAMES: u16 = 53;
    let one_host = match to.ip() {
        IpAddr::V4(v4) => !v4.is_multicast() && !v4.is_broadcast() && !v4.is_unspecified(),
        IpAddr::V6(v6) => !v6.is_multicast() && !v6.is_unspecified(),
    };
    one_host && to.port() != 0 && to.port() != NAMES
}
