//! Changes of links and addresses (rtnetlink(7)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{RecvFlags, SocketFlags};
use thiserror::Error;

use super::route;

use super::route::{Attributes, Messages, int};

/// Longer than any message of these groups; the kernel does not limit them to a page.
const LONGEST: usize = 32 * 1024;
/// IFLA_IFNAME, IFLA_MTU (linux/if_link.h), IFA_ADDRESS, IFA_LOCAL (linux/if_addr.h).
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// An interface was added or changed.
    Link {
        /// Its number.
        index: u32,
        /// Its name.
        name: String,
        /// Its MTU.
        mtu: u32,
        /// True if it is administratively up.
        up: bool,
        /// True if it has a carrier: a peer at the other end of the cable.
        carrier: bool,
    },
    /// An interface was removed.
    LinkGone {
        /// Its number.
        index: u32,
    },
    /// An address was added, or its lifetime was renewed.
    Address {
        /// The interface's number.
        index: u32,
        /// The address.
        address: IpAddr,
    },
    /// An address was removed.
    AddressGone {
        /// The interface's number.
        index: u32,
        /// The address.
        address: IpAddr,
    },
}

/// The reason changes cannot be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WatchError {
    /// ENOBUFS: more changes came than were read.
    #[error("changes were lost because they were not read in time: look at the interfaces anew")]
    Lost,
    /// Any other error.
    #[error("{call} failed: {errno}")]
    Failed {
        /// The system call.
        call: &'static str,
        /// Its error.
        errno: Errno,
    },
}

/// Reports changes in the namespace in which it was opened. Readable to poll(2) when there are any.
#[derive(Debug)]
pub struct Watch {
    fd: OwnedFd,
}

impl Watch {
    /// Starts watching. Needs no privilege.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn open() -> Result<Self, WatchError> {
        let failed = |call| move |errno| WatchError::Failed { call, errno };
        let groups = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
        let fd = route::socket(SocketFlags::NONBLOCK).map_err(failed("socket(2)"))?;
        rustix::net::bind(&fd, &SocketAddrNetlink::new(0, groups.cast_unsigned()))
            .map_err(failed("bind(2)"))?;
        Ok(Self { fd })
    }

    /// Returns the changes since the last call, in order. Empty if there were none.
    ///
    /// # Errors
    /// [`WatchError::Lost`] once for each gap.
    pub fn changes(&self) -> Result<Vec<Change>, WatchError> {
        let mut changes = Vec::new();
        let mut buffer = vec![0_u8; LONGEST];
        loop {
            match rustix::net::recv(&self.fd, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((len, _)) => {
                    changes.extend(changes_in(&buffer[..len]));
                }
                Err(Errno::AGAIN) => return Ok(changes),
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS) => return Err(WatchError::Lost),
                Err(errno) => return Err(WatchError::Failed { call: "recv(2)", errno }),
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Parses the messages of a buffer into changes. Ends at the first message that does not fit, and
/// skips those about something else.
pub fn changes_in(buffer: &[u8]) -> impl Iterator<Item = Change> {
    Messages::of(buffer).filter_map(|(kind, body)| parse(kind, body))
}

fn parse(kind: u16, body: &[u8]) -> Option<Change> {
    match kind {
        // `ifinfomsg`: family, type, index, flags, change: 16 bytes.
        libc::RTM_NEWLINK => {
            let (index, flags) = (int(body, 4)?, int(body, 8)?.cast_signed());
            let find = |kind| Attributes::of(body.get(16..)?).find(|(k, _)| *k == kind);
            let (_, name) = find(IFLA_IFNAME)?;
            let name = name.split(|&byte| byte == 0).next()?;
            let is = |flag| flags & flag != 0;
            Some(Change::Link {
                index,
                name: String::from_utf8_lossy(name).into_owned(),
                mtu: int(find(IFLA_MTU)?.1, 0)?,
                up: is(libc::IFF_UP),
                carrier: is(libc::IFF_RUNNING),
            })
        }
        libc::RTM_DELLINK => Some(Change::LinkGone { index: int(body, 4)? }),
        // `ifaddrmsg`: family, prefix, flags, scope, index: 8 bytes.
        libc::RTM_NEWADDR | libc::RTM_DELADDR => {
            let index = int(body, 4)?;
            let find = |kind| Attributes::of(body.get(8..)?).find(|(k, _)| *k == kind);
            let (_, bytes) = find(IFA_LOCAL).or_else(|| find(IFA_ADDRESS))?;
            let address = match i32::from(*body.first()?) {
                _ if bytes.len() == 4 => Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into(),
                libc::AF_INET6 => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into(),
                _ => return None,
            };
            Some(if kind == libc::RTM_NEWADDR {
                Change::Address { index, address }
            } else {
                Change::AddressGone { index, address }
            })
        }
        _ => None,
    }
}
