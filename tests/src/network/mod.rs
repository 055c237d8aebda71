//! Networks to test on: nodes in a line, each a network namespace of its own, joined by veth pairs.
//!
//! ```text
//! node 0 ──right─ link 0 ─left── node 1 ──right─ link 1 ─left── node 2
//!        10.0.0.1       10.0.0.2        10.0.1.1       10.0.1.2
//!        fd00::1         fd00::2       fd00:0:0:1::1  fd00:0:0:1::2
//! ```
//!
//! The namespaces have no names: they and their interfaces end with the last descriptor, thread and
//! process in them. So a test that panics or is killed leaves nothing behind, and two never meet.

mod node;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, AsRawFd as _};

use punctual_linux::net::interface::Interface;
use punctual_linux::net::route::{self, Discipline, DisciplineError};
use punctual_linux::net::{Inbox, Outgoing, Setup, UdpSocket};

use crate::live::eventually;
pub use node::Node;

/// The side of a link that an end is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// At the node with the lower number.
    Lower,
    /// At the node with the higher number.
    Higher,
}

/// One end of one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    link: u8,
    side: Side,
}

/// The end of link `link` at node `link`.
pub fn lower(link: u8) -> End {
    End { link, side: Side::Lower }
}

/// The end of link `link` at node `link + 1`.
pub fn higher(link: u8) -> End {
    End { link, side: Side::Higher }
}

impl End {
    /// Returns the node of this end.
    pub fn node(self) -> usize {
        usize::from(self.link) + usize::from(self.side == Side::Higher)
    }

    /// Returns the name of its interface there.
    pub fn device(self) -> &'static str {
        match self.side {
            Side::Lower => "right",
            Side::Higher => "left",
        }
    }

    /// Returns its address of either family.
    pub fn address(self, v6: bool) -> IpAddr {
        let host = if self.side == Side::Lower { 1 } else { 2 };
        if v6 {
            Ipv6Addr::new(0xfd00, 0, 0, self.link.into(), 0, 0, 0, host).into()
        } else {
            Ipv4Addr::new(10, 0, self.link, host as u8).into()
        }
    }

    /// Returns a socket address there.
    pub fn port(self, v6: bool, port: u16) -> SocketAddr {
        SocketAddr::new(self.address(v6), port)
    }

    fn subnet(self, v6: bool) -> String {
        let bits = if v6 { 64 } else { 24 };
        format!("{}/{bits}", self.address(v6))
    }
}

/// Nodes in a line.
#[derive(Debug)]
pub struct Network {
    nodes: Vec<Node>,
}

impl Network {
    /// Makes a line of `nodes` nodes, at least two; inner nodes forward. Returns `None`, and prints
    /// the reason, if this host or user cannot.
    pub fn line(nodes: u8) -> Option<Self> {
        let links = nodes.max(2) - 1;
        let made: Option<Vec<Node>> = (0..=links).map(|_| Node::make()).collect();
        let network = Self { nodes: made? };
        for link in 0..links {
            let peer = network.node_of(higher(link)).namespace().as_fd().as_raw_fd();
            // A path through this process, because the namespace has no name. With the same number
            // at both ends, the kernel would report carriers up to a second late
            // (`linkwatch_urgent_event` mistakes the two for one).
            let namespace = format!("/proc/{}/fd/{peer}", std::process::id());
            network.node_of(lower(link)).ip(&format!(
                "link add right index 100 type veth peer name left netns {namespace}"
            ));
        }
        for link in 0..links {
            for end in [lower(link), higher(link)] {
                network.node_of(end).ip(&format!(
                    "address add {} dev {device}\naddress add {} dev {device} nodad\n\
                     link set {device} up",
                    end.subnet(false),
                    end.subnet(true),
                    device = end.device(),
                ));
            }
        }
        for link in 0..links {
            network.wait_until_it_works(link);
        }
        for node in 0..=links {
            network.route(node);
        }
        Some(network)
    }

    /// Returns the node with this number.
    pub fn node(&self, number: usize) -> &Node {
        &self.nodes[number]
    }

    /// Returns the node that has this end.
    pub fn node_of(&self, end: End) -> &Node {
        &self.nodes[end.node()]
    }

    /// Returns the current state of an end's interface.
    pub fn interface(&self, end: End) -> Interface {
        self.node_of(end).run(|| Interface::named(end.device())).expect("made with the network")
    }

    /// Takes an end up or down. The other end loses its carrier with it, and must be up when this one
    /// comes up.
    pub fn set_up(&self, end: End, up: bool) {
        let word = if up { "up" } else { "down" };
        self.node_of(end).ip(&format!("link set {} {word}", end.device()));
        if up {
            self.wait_until_it_works(end.link);
            // Its routes were removed with the link.
            for node in [end.link, end.link + 1] {
                self.route(node);
            }
        }
    }

    /// Waits until both ends have a carrier and know each other's hardware addresses, so that no
    /// datagram of a test waits for them.
    fn wait_until_it_works(&self, link: u8) {
        for end in [lower(link), higher(link)] {
            assert!(eventually(|| self.interface(end).carrier), "{end:?} gets a carrier");
        }
        for v6 in [false, true] {
            let open = |end: End, setup: Setup| {
                self.node_of(end).run(|| UdpSocket::open(&setup)).expect("an address of ours")
            };
            let receiver = open(higher(link), Setup::at(higher(link).port(v6, 0)));
            let to = receiver.local_address().expect("bound");
            let sender = open(lower(link), Setup::to(to));
            let mut inbox = Inbox::new(1, 1);
            let through = eventually(|| {
                // An error here reports an earlier attempt.
                let _ = sender.send(&Outgoing::default());
                receiver.receive(&mut inbox).is_ok_and(|arrivals| arrivals > 0)
            });
            assert!(through, "link {link} carries nothing (IPv6: {v6})");
        }
    }

    /// Changes the MTU of an end.
    pub fn set_mtu(&self, end: End, mtu: u32) {
        self.node_of(end).ip(&format!("link set {} mtu {mtu}", end.device()));
    }

    /// Changes the MTU of both ends of a link.
    pub fn set_mtu_of_link(&self, link: u8, mtu: u32) {
        self.set_mtu(lower(link), mtu);
        self.set_mtu(higher(link), mtu);
    }

    /// Removes an end's address of one family, or restores it.
    pub fn set_address(&self, end: End, v6: bool, there: bool) {
        let word = if there { "add" } else { "del" };
        let nodad = if there && v6 { "nodad" } else { "" };
        let (subnet, device) = (end.subnet(v6), end.device());
        self.node_of(end).ip(&format!("address {word} {subnet} dev {device} {nodad}"));
    }

    /// Sets the queueing discipline at an end.
    ///
    /// # Errors
    /// Fails if this kernel does not have it.
    pub fn set_discipline(&self, end: End, discipline: Discipline) -> Result<(), DisciplineError> {
        let index = self.interface(end).index;
        self.node_of(end).run(|| route::set_discipline(index, discipline))
    }

    /// Sets any queueing discipline in the syntax of tc(8), such as `netem delay 10ms`. Returns
    /// whether this kernel has it, and prints a line if not.
    pub fn tc(&self, end: End, discipline: &str) -> bool {
        let line = format!("qdisc replace dev {} root {discipline}", end.device());
        let done = self.node_of(end).try_command("tc", &line);
        done.map_err(|why| println!("skipped: {discipline}: {}", why.trim())).is_ok()
    }

    /// Adds one node's routes to the links that it is not on.
    fn route(&self, node: u8) {
        let last = self.nodes.len() as u8 - 1;
        let mut lines = Vec::new();
        for link in 0..last {
            let through = if link > node { higher(node) } else { lower(node.saturating_sub(1)) };
            if link == node || link + 1 == node {
                continue;
            }
            for v6 in [false, true] {
                let to = match v6 {
                    false => format!("10.0.{link}.0/24"),
                    true => format!("fd00:0:0:{link:x}::/64"),
                };
                lines.push(format!("route replace {to} via {}", through.address(v6)));
            }
        }
        if !lines.is_empty() {
            self.nodes[usize::from(node)].ip(&lines.join("\n"));
        }
    }
}
