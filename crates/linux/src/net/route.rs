//! Queueing disciplines of an interface (tc(8)), set through rtnetlink(7) without the program `tc`.
//!
//! The netlink messages (netlink(7)) are written and read byte by byte and checked against their
//! end.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use thiserror::Error;

use crate::net::error::errno_of;

/// TC_H_ROOT (linux/pkt_sched.h).
const ROOT: u32 = u32::MAX;
/// The root discipline's number, "1:".
const HANDLE: u32 = 0x0001_0000;
/// TC_LINKLAYER_ETHERNET: the kernel then needs no rate table.
const ETHERNET: u8 = 1;
/// The kernel's tick of packet schedulers (PSCHED_SHIFT).
const TICK_NS: u64 = 64;

/// The length of `nlmsghdr`: length, type, flags, number, port.
const HEADER: usize = 16;
/// The length of `nlattr`: length, type.
const ATTRIBUTE: usize = 4;
/// Every message and attribute begins at a multiple of this.
const ALIGN: usize = 4;

/// A queueing discipline of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// Token bucket filter (tc-tbf(8)).
    Tbf {
        /// The rate in bytes a second, link headers included.
        rate: u64,
        /// The bytes that may leave at once: at least one packet.
        burst_bytes: u32,
        /// The bytes that may wait; more are dropped.
        limit_bytes: u32,
    },
    /// Hierarchical token bucket (tc-htb(8)) with one class, 1:1, that all packets go through. More
    /// classes are added with [`add_htb_class`].
    Htb {
        /// The rate in bytes a second, link headers included.
        rate: u64,
        /// The bytes that may leave at once: at least one packet.
        burst_bytes: u32,
    },
    /// Fair queue with pacing (tc-fq(8)): honours departure times on CLOCK_MONOTONIC, and
    /// SO_MAX_PACING_RATE.
    Fq,
    /// Earliest departure time first (tc-etf(8)), on CLOCK_TAI.
    Etf {
        /// How long before its departure a packet is taken, in nanoseconds.
        delta: u32,
    },
}

impl Discipline {
    /// Returns its name in tc(8).
    pub fn name(&self) -> &'static str {
        match self {
            Self::Tbf { .. } => "tbf",
            Self::Htb { .. } => "htb",
            Self::Fq => "fq",
            Self::Etf { .. } => "etf",
        }
    }
}

/// The reason a discipline was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DisciplineError {
    /// ENOENT.
    #[error("this kernel has no {name}: it needs the module sch_{name}")]
    Unknown {
        /// The discipline's name in tc(8).
        name: &'static str,
    },
    /// EPERM.
    #[error("queueing disciplines take CAP_NET_ADMIN in the interface's network namespace")]
    Forbidden,
    /// ENODEV.
    #[error("there is no interface {index} in this network namespace")]
    NoInterface {
        /// The interface's number.
        index: u32,
    },
    /// Any other error.
    #[error("the kernel does not set {name}: {errno}")]
    Failed {
        /// The discipline's name in tc(8).
        name: &'static str,
        /// The kernel's error.
        errno: Errno,
    },
}

/// Sets the root discipline of interface `index` of this namespace, in place of any other. Packets
/// waiting in the old one are lost.
///
/// # Errors
/// If the kernel refuses; the old discipline stays.
pub fn set_discipline(index: u32, discipline: Discipline) -> Result<(), DisciplineError> {
    let failed = of(discipline.name(), index);
    let (flags, body) = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE, tcmsg(index, HANDLE, ROOT));
    let mut kind = discipline.name().as_bytes().to_vec();
    kind.push(0);
    let request = Request::new(libc::RTM_NEWQDISC, flags, &body).attribute(libc::TCA_KIND, &kind);
    let options = match discipline {
        Discipline::Tbf { rate, burst_bytes, limit_bytes } => {
            // `tc_tbf_qopt`: rate, peak rate, limit, buffer, mtu. TCA_TBF_PARMS, _RATE64, _BURST.
            let mut parameters = ratespec(rate).to_vec();
            parameters.extend([0; 12]);
            parameters.extend(limit_bytes.to_ne_bytes());
            parameters.extend([0; 8]);
            let (wide, burst) = (rate.to_ne_bytes(), burst_bytes.to_ne_bytes());
            nested(&[(1, &parameters), (4, &wide), (6, &burst)])
        }
        Discipline::Htb { .. } => {
            // `tc_htb_glob`: version, rate to quantum, default class, and two unused fields.
            nested(&[(2, &words([3, 10, 1, 0, 0]))])
        }
        Discipline::Fq => Vec::new(),
        Discipline::Etf { delta } => {
            // `tc_etf_qopt`: delta, clock, flags.
            nested(&[(1, &words([delta, libc::CLOCK_TAI.cast_unsigned(), 0]))])
        }
    };
    request.attribute(libc::TCA_OPTIONS, &options).send().map_err(failed)?;
    match discipline {
        Discipline::Htb { rate, burst_bytes } => {
            add_htb_class(index, 1, rate, rate, burst_bytes, 0)
        }
        _ => Ok(()),
    }
}

/// Adds or changes class 1:`minor` of an htb at the root of interface `index`. Datagrams of a
/// socket whose priority is `0x10000 | minor` go through it.
///
/// `rate` and `ceiling` are in bytes a second; above their rates, classes of a lower `order` (0–7)
/// are served first.
///
/// # Errors
/// If the root is not an htb, or without privilege.
pub fn add_htb_class(
    index: u32,
    minor: u16,
    rate: u64,
    ceiling: u64,
    burst_bytes: u32,
    order: u8,
) -> Result<(), DisciplineError> {
    let ticks = |rate: u64| {
        let nanos = u64::from(burst_bytes).saturating_mul(1_000_000_000) / rate.max(1);
        u32::try_from(nanos / TICK_NS).unwrap_or(u32::MAX)
    };
    // `tc_htb_opt`: rate, ceiling, their buffers, quantum, level, order.
    let mut parameters = ratespec(rate).to_vec();
    parameters.extend(ratespec(ceiling));
    parameters.extend(words([ticks(rate), ticks(ceiling), burst_bytes, 0, order.into()]));
    let (wide, wide_ceiling) = (rate.to_ne_bytes(), ceiling.to_ne_bytes());
    let options = nested(&[(1, &parameters), (6, &wide), (7, &wide_ceiling)]);
    let body = tcmsg(index, HANDLE | u32::from(minor), HANDLE);
    Request::new(libc::RTM_NEWTCLASS, libc::NLM_F_CREATE, &body)
        .attribute(libc::TCA_KIND, b"htb\0")
        .attribute(libc::TCA_OPTIONS, &options)
        .send()
        .map_err(of("htb", index))
}

/// Removes the root discipline: the interface has its default one again.
///
/// # Errors
/// If there is none to remove, or without privilege.
pub fn remove_discipline(index: u32) -> Result<(), DisciplineError> {
    Request::new(libc::RTM_DELQDISC, 0, &tcmsg(index, 0, ROOT)).send().map_err(of("root", index))
}

/// Encodes `tcmsg`: family, interface, handle, parent, info.
fn tcmsg(index: u32, handle: u32, parent: u32) -> Vec<u8> {
    words([0, index, handle, parent, 0])
}

/// Encodes `tc_ratespec`: cell log, link layer, overhead, cell alignment, least packet, rate. A
/// rate beyond 32 bits goes into an attribute of its own.
fn ratespec(rate: u64) -> [u8; 12] {
    let mut spec = [0; 12];
    spec[1] = ETHERNET;
    spec[8..].copy_from_slice(&u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
    spec
}

fn words<const N: usize>(words: [u32; N]) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

fn of(name: &'static str, index: u32) -> impl Fn(Errno) -> DisciplineError {
    move |errno| match errno {
        Errno::NOENT => DisciplineError::Unknown { name },
        Errno::PERM | Errno::ACCESS => DisciplineError::Forbidden,
        Errno::NODEV => DisciplineError::NoInterface { index },
        errno => DisciplineError::Failed { name, errno },
    }
}

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
