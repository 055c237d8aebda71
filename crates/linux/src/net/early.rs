//! Discarding datagrams before the network stack sees them: what a receiver asks for, and where a program is attached.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

use punctual_model::time::Duration;
use rustix::io::Errno;

use super::interface::Interface;
use super::xdp;

/// How often packets of a flow may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The time between two packets at that rate.
    pub spacing: Duration,
    /// How much earlier a packet may come: with `(n − 1)` spacings, n packets may come at once.
    pub tolerance: Duration,
}

/// The packets of a flow since its rate was first set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets let through.
    pub passed: u64,
    /// Packets discarded.
    pub discarded: u64,
}

/// Polices flows before the network stack, each by its own rate. `punctual_bpf::Policer` is one.
pub trait EarlyPolicer: fmt::Debug + Send {
    /// Polices packets to this address and port, or to this port and any address of the family if the
    /// address is unspecified; returns whether there was room for it. A rate that is set anew goes on
    /// counting.
    fn set(&self, flow: SocketAddr, rate: Rate) -> bool;

    /// Lets all packets of a flow pass again, and forgets its counts.
    fn remove(&self, flow: SocketAddr);

    /// Returns what became of a flow's packets, or `None` if that cannot be read.
    fn counts(&self, flow: SocketAddr) -> Option<Counts>;
}

/// Where an XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the kernel's generic code, behind the driver (XDP_FLAGS_SKB_MODE).
    Generic,
    /// In the driver (XDP_FLAGS_DRV_MODE). Some drivers reset the interface for it, which then carries
    /// nothing for some seconds.
    Native,
}

impl XdpMode {
    fn flags(self) -> u32 {
        match self {
            Self::Generic => 2,
            Self::Native => 4,
        }
    }
}

/// Attaches an XDP program to an interface of the calling thread's network namespace, until the result
/// is closed.
///
/// # Errors
/// The kernel's error: EPERM or EACCES without CAP_NET_ADMIN and CAP_BPF, EBUSY or EEXIST beside
/// another program, EOPNOTSUPP or EINVAL if the driver takes none.
pub fn attach_xdp(
    program: BorrowedFd<'_>,
    interface: &Interface,
    mode: XdpMode,
) -> Result<OwnedFd, Errno> {
    xdp::attach(program, interface.index, mode.flags())
}
