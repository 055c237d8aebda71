//! Options of a socket, each returning what the kernel really granted.

use std::os::fd::AsFd as _;

use rustix::net::sockopt;

use super::error::{OptionError, of_option};
use super::raw;
use super::socket::UdpSocket;

/// The index of the drops in SO_MEMINFO (`SK_MEMINFO_DROPS` of linux/sock_diag.h).
const DROPS: usize = 8;

/// The treatment of datagrams longer than the path's MTU (ip(7), IP_MTU_DISCOVER).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathMtu {
    /// Refuse them, trusting the routers' reports: the default of a [`UdpSocket`].
    Respect,
    /// Send up to the interface's MTU whatever routers reported; for finding the MTU
    /// (IP_PMTUDISC_PROBE).
    Probe,
    /// Let the kernel fragment them, at a third of the speed; one lost fragment loses the datagram.
    Fragment,
}

impl UdpSocket {
    /// Requests room for `bytes` of received datagrams that have not been read; returns the room
    /// granted, in the same unit. The kernel's overhead of each datagram counts, too (some 800
    /// bytes for a short one); the kernel doubles the request for that (socket(7), SO_RCVBUF).
    ///
    /// More than net.core.rmem_max takes CAP_NET_ADMIN: without it, the kernel silently grants
    /// less, as the result shows.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_receive_buffer(&self, bytes: usize) -> Result<usize, OptionError> {
        let failed = of_option("SO_RCVBUF", "CAP_NET_ADMIN", bytes as u64);
        if sockopt::set_socket_recv_buffer_size_force(self, bytes).is_err() {
            sockopt::set_socket_recv_buffer_size(self, bytes).map_err(&failed)?;
        }
        sockopt::socket_recv_buffer_size(self).map(|given| given / 2).map_err(&failed)
    }

    /// Does the same as [`set_receive_buffer`](Self::set_receive_buffer) for datagrams that no
    /// driver has taken yet (SO_SNDBUF, net.core.wmem_max).
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_send_buffer(&self, bytes: usize) -> Result<usize, OptionError> {
        let failed = of_option("SO_SNDBUF", "CAP_NET_ADMIN", bytes as u64);
        if sockopt::set_socket_send_buffer_size_force(self, bytes).is_err() {
            sockopt::set_socket_send_buffer_size(self, bytes).map_err(&failed)?;
        }
        sockopt::socket_send_buffer_size(self).map(|given| given / 2).map_err(&failed)
    }

    /// Sets the priority by which queueing disciplines choose (SO_PRIORITY, socket(7)): 0 to 6, or
    /// with CAP_NET_ADMIN any, such as the number of an htb class (tc-htb(8)).
    ///
    /// # Errors
    /// Above 6 without the capability.
    pub fn set_priority(&self, priority: u32) -> Result<(), OptionError> {
        raw::set(self.as_fd(), libc::SOL_SOCKET, libc::SO_PRIORITY, &priority.to_ne_bytes())
            .map_err(of_option("SO_PRIORITY", "CAP_NET_ADMIN above 6", priority.into()))
    }

    /// Sets the traffic class of each datagram, DSCP and ECN: IP_TOS (ip(7)) or IPV6_TCLASS
    /// (ipv6(7)). Set the priority after it: IP_TOS changes that, too.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_traffic_class(&self, class: u8) -> Result<(), OptionError> {
        let done = if self.is_v6() {
            sockopt::set_ipv6_tclass(self, class.into())
        } else {
            sockopt::set_ip_tos(self, class)
        };
        done.map_err(of_option("IP_TOS", "IPv4 or IPv6", class.into()))
    }

    /// Turns reporting of the traffic class of received datagrams on or off.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn tell_traffic_class(&self, on: bool) -> Result<(), OptionError> {
        let done = if self.is_v6() {
            sockopt::set_ipv6_recvtclass(self, on)
        } else {
            sockopt::set_ip_recvtos(self, on)
        };
        done.map_err(of_option("IP_RECVTOS", "IPv4 or IPv6", on.into()))
    }

    /// Sets the treatment of datagrams longer than the path's MTU.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_path_mtu(&self, how: PathMtu) -> Result<(), OptionError> {
        // Both families use the same numbers (linux/in.h, linux/in6.h).
        let how = match how {
            PathMtu::Respect => libc::IP_PMTUDISC_DO,
            PathMtu::Probe => libc::IP_PMTUDISC_PROBE,
            PathMtu::Fragment => libc::IP_PMTUDISC_DONT,
        };
        let (level, name) = if self.is_v6() {
            (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER)
        } else {
            (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER)
        };
        raw::set_int(self.as_fd(), level, name, how).map_err(of_option("IP_MTU_DISCOVER", "", 0))
    }

    /// Returns the known MTU of the path to the connected peer, headers of IP and UDP included
    /// (IP_MTU, IPV6_MTU). A smaller MTU far away becomes known by sending.
    ///
    /// # Errors
    /// [`OptionError::NotConnected`].
    pub fn path_mtu(&self) -> Result<u32, OptionError> {
        let mtu = if self.is_v6() { sockopt::ipv6_mtu(self) } else { sockopt::ip_mtu(self) };
        mtu.map_err(of_option("IP_MTU", "a connected socket", 0))
    }

    /// Returns the longest payload of one datagram to the connected peer.
    ///
    /// # Errors
    /// As [`path_mtu`](Self::path_mtu).
    pub fn longest_payload(&self) -> Result<u32, OptionError> {
        Ok(self.path_mtu()?.saturating_sub(self.header_bytes()))
    }

    /// Turns received trains on or off: several datagrams of one flow that arrive together are
    /// received as one, with the length of each (UDP_GRO, udp(7); Linux 5.0). A filter sees them as
    /// one, too.
    ///
    /// # Errors
    /// If the kernel does not support it.
    pub fn set_receive_trains(&self, on: bool) -> Result<(), OptionError> {
        raw::set_int(self.as_fd(), libc::SOL_UDP, libc::UDP_GRO, on.into()).map_err(of_option(
            "UDP_GRO",
            "Linux 5.0",
            on.into(),
        ))
    }

    /// Turns drop counts on or off: each received datagram then reports how many were dropped
    /// before it (SO_RXQ_OVFL).
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn tell_drops(&self, on: bool) -> Result<(), OptionError> {
        raw::set_int(self.as_fd(), libc::SOL_SOCKET, libc::SO_RXQ_OVFL, on.into())
            .map_err(of_option("SO_RXQ_OVFL", "Linux 2.6.33", on.into()))
    }

    /// Returns the number of datagrams that arrived and were dropped since the socket was opened,
    /// modulo 2³²: for lack of room, by its filter, or with a wrong checksum (SO_MEMINFO). It is
    /// known without another arrival.
    ///
    /// # Errors
    /// If the kernel is older than 4.12.
    pub fn drops(&self) -> Result<u32, OptionError> {
        const NAME: &str = "SO_MEMINFO";
        const NEEDS: &str = "Linux 4.12";
        let mut words = [0; 16];
        let count = raw::get(self.as_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, &mut words)
            .map_err(of_option(NAME, NEEDS, 0))?;
        let unsupported = OptionError::Unsupported { option: NAME, needs: NEEDS };
        if count > DROPS { Ok(words[DROPS]) } else { Err(unsupported) }
    }
}
