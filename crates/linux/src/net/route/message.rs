//! Netlink messages (netlink(7)), written and read byte by byte and checked against their end.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::net::error::errno_of;

/// The length of `nlmsghdr`: length, type, flags, number, port.
const HEADER: usize = 16;
/// The length of `nlattr`: length, type.
const ATTRIBUTE: usize = 4;
/// Every message and attribute begins at a multiple of this.
const ALIGN: usize = 4;

pub(in crate::net) fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(in crate::net) fn int(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// An iterator over the messages in a buffer, as type and body. Ends at the first that does not
/// fit.
#[derive(Clone, Debug)]
pub(in crate::net) struct Messages<'a>(&'a [u8]);

impl<'a> Messages<'a> {
    pub(in crate::net) fn of(buffer: &'a [u8]) -> Self {
        Self(buffer)
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let len = int(self.0, 0)? as usize;
        let kind = short(self.0, 4)?;
        let body = self.0.get(HEADER..len)?;
        self.0 = self.0.get(len.next_multiple_of(ALIGN)..).unwrap_or_default();
        Some((kind, body))
    }
}

/// An iterator over the attributes of a message, as type and value. Ends at the first that does not
/// fit.
#[derive(Clone, Debug)]
pub(in crate::net) struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    pub(in crate::net) fn of(body: &'a [u8]) -> Self {
        Self(body)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let len = usize::from(short(self.0, 0)?);
        let kind = short(self.0, 2)?;
        let value = self.0.get(ATTRIBUTE..len)?;
        self.0 = self.0.get(len.next_multiple_of(ALIGN)..).unwrap_or_default();
        Some((kind, value))
    }
}

/// A message to be sent.
#[derive(Clone, Debug)]
pub(in crate::net) struct Request(Vec<u8>);

impl Request {
    /// Makes a request that the kernel acknowledges.
    pub(in crate::net) fn new(kind: u16, flags: i32, body: &[u8]) -> Self {
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags) as u16;
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend(body);
        Self(bytes)
    }

    pub(in crate::net) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        push(&mut self.0, kind, value);
        self
    }

    /// Sends it, waits for the kernel's answer and returns that.
    pub(in crate::net) fn send(mut self) -> Result<(), Errno> {
        let len = u32::try_from(self.0.len()).map_err(|_| Errno::MSGSIZE)?;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        let fd = socket(SocketFlags::empty())?;
        rustix::net::send(&fd, &self.0, SendFlags::empty())?;
        let mut answer = [0_u8; 4096];
        let (len, _) = rustix::io::retry_on_intr(|| {
            rustix::net::recv(&fd, &mut answer[..], RecvFlags::empty())
        })?;
        answered(&answer[..len])
    }
}

/// Parses the kernel's answer to a request.
///
/// # Errors
/// The kernel's error, or EPROTO if there is no acknowledgement.
pub fn answered(answer: &[u8]) -> Result<(), Errno> {
    // `nlmsgerr` begins with a negative errno, 0 for none.
    let errors = |(kind, body): (u16, &[u8])| {
        (i32::from(kind) == libc::NLMSG_ERROR).then(|| int(body, 0)).flatten()
    };
    match Messages::of(answer).find_map(errors).map(u32::cast_signed) {
        Some(0) => Ok(()),
        Some(errno) => Err(errno_of(-i64::from(errno))),
        None => Err(Errno::PROTO),
    }
}

/// Encodes attributes as the value of an attribute that nests them.
pub(in crate::net) fn nested(attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, value) in attributes {
        push(&mut bytes, *kind, value);
    }
    bytes
}

fn push(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    // No attribute sent from here is longer than a page.
    let len = (ATTRIBUTE + value.len()) as u16;
    bytes.extend(len.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
}

/// Opens a socket to rtnetlink(7), which is netlink's protocol 0.
pub(in crate::net) fn socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_back_and_nonsense_ends() {
        let bytes = nested(&[(1, b"abc"), (2, &[]), (3, &[9; 8])]);
        let read: Vec<_> = Attributes::of(&bytes).collect();
        assert_eq!(read, [(1, &b"abc"[..]), (2, &[][..]), (3, &[9; 8][..])]);
        for len in 0..bytes.len() {
            assert!(Attributes::of(&bytes[..len]).count() < 3);
        }
        for byte in [0, 1, 4, 0x10, 0xff] {
            assert!(Attributes::of(&[byte; 64]).count() <= 16);
            assert!(Messages::of(&[byte; 64]).count() <= 4);
        }
    }

    #[test]
    fn an_answer_is_an_acknowledgement_or_an_error_number() {
        let answer = |errno: i32| {
            let (len, kind) = (20_u32.to_ne_bytes(), (libc::NLMSG_ERROR as u16).to_ne_bytes());
            [&len[..], &kind, &[0; 10], &errno.to_ne_bytes()].concat()
        };
        assert_eq!(answered(&answer(0)), Ok(()));
        assert_eq!(answered(&answer(-libc::ENODEV)), Err(Errno::NODEV));
        for other in [libc::ENODEV, -4096, i32::MIN, i32::MAX] {
            assert_eq!(answered(&answer(other)), Err(Errno::PROTO), "{other}");
        }
        assert_eq!(answered(&[]), Err(Errno::PROTO));
    }
}
