//! Socket addresses as the kernel writes them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// `sockaddr_in6`, the longest address of the two families (ipv6(7)).
pub(super) const LONGEST: usize = 28;

/// A `sockaddr_in` or `sockaddr_in6` (ip(7), ipv6(7)), byte by byte: the layout is part of the
/// kernel's interface, so no union is needed to write it.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(super) struct Name {
    bytes: [u8; LONGEST],
    len: u32,
}

impl Name {
    /// An address for the kernel to write.
    pub(super) const EMPTY: Self = Self { bytes: [0; LONGEST], len: 0 };

    pub(super) fn of(address: SocketAddr) -> Self {
        let mut bytes = [0; LONGEST];
        let mut put = |at: usize, what: &[u8]| bytes[at..at + what.len()].copy_from_slice(what);
        put(2, &address.port().to_be_bytes());
        let len = match address {
            SocketAddr::V4(v4) => {
                put(0, &(libc::AF_INET as u16).to_ne_bytes());
                put(4, &v4.ip().octets());
                16
            }
            SocketAddr::V6(v6) => {
                put(0, &(libc::AF_INET6 as u16).to_ne_bytes());
                // glibc and the kernel take the flow label in wire order; std keeps it so.
                put(4, &v6.flowinfo().to_ne_bytes());
                put(8, &v6.ip().octets());
                put(24, &v6.scope_id().to_ne_bytes());
                LONGEST as u32
            }
        };
        Self { bytes, len }
    }

    /// Parses an address; `None` if it is of another family or too short.
    pub(super) fn parse(bytes: &[u8]) -> Option<SocketAddr> {
        let family = i32::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
        match family {
            libc::AF_INET => {
                let ip: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
                Some(SocketAddrV4::new(Ipv4Addr::from(ip), port).into())
            }
            libc::AF_INET6 => {
                let word =
                    |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
                let ip: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
                Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, word(4)?, word(24)?).into())
            }
            _ => None,
        }
    }

    /// Returns the address after the kernel wrote `len` bytes of it.
    pub(super) fn written(&self, len: u32) -> Option<SocketAddr> {
        Self::parse(self.bytes.get(..(len as usize).min(LONGEST))?)
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        self.bytes.as_mut_ptr().cast()
    }

    /// Returns the number of bytes in use.
    pub(super) fn len(&self) -> u32 {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_comes_back() {
        for text in ["127.0.0.1:9", "255.254.253.252:65535", "[::1]:1", "[fe80::1%7]:40000"] {
            let address: SocketAddr = text.parse().expect("an address");
            let name = Name::of(address);
            assert_eq!(name.written(name.len()), Some(address));
        }
    }

    #[test]
    fn a_truncated_or_foreign_address_is_refused() {
        let name = Name::of("[::1]:1".parse().expect("an address"));
        for len in 0..28 {
            assert_eq!(name.written(len), None);
        }
        assert_eq!(Name::parse(&[0xff; 28]), None);
    }
}
