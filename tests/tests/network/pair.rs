//! A sender and a receiver at the two ends of a link.

use punctual_linux::net::{Inbox, Notice, Outgoing, Place, Setup, UdpSocket};
use system_tests::live::eventually;
use system_tests::network::{End, Network, higher, lower};

/// Two nodes, each with a socket that knows the address of the other.
pub(crate) struct Pair {
    pub(crate) network: Network,
    pub(crate) sender: UdpSocket,
    pub(crate) receiver: UdpSocket,
    pub(crate) inbox: Inbox,
}

/// Runs a test for IPv4 and IPv6, if this host has network namespaces.
pub(crate) fn for_each_family(mut test: impl FnMut(Pair, bool)) {
    for v6 in [false, true] {
        let Some(network) = Network::line(2) else { return };
        test(Pair::over(network, lower(0), higher(0), v6), v6);
    }
}

impl Pair {
    /// Makes a pair from one end of the network to another, with the sender connected.
    pub(crate) fn over(network: Network, from: End, to: End, v6: bool) -> Self {
        let receiver = bound(&network, to, v6);
        let to = receiver.local_address().expect("bound");
        let sender = network.node_of(from).run(|| UdpSocket::open(&Setup::to(to)));
        let sender = sender.expect("connects");
        Self { network, sender, receiver, inbox: Inbox::new(64, 65_536) }
    }

    /// Sends one datagram, which must leave.
    pub(crate) fn send(&self, payload: &[u8]) {
        self.sender.send(&Outgoing::new(&[Place::of(payload)])).expect("sent");
    }

    /// Waits for this many datagrams, and returns their payloads.
    pub(crate) fn receive(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut got = Vec::new();
        let whole = eventually(|| {
            self.receiver.receive(&mut self.inbox).expect("received");
            got.extend(self.inbox.datagrams().map(|datagram| datagram.bytes.to_vec()));
            got.len() >= count
        });
        assert!(whole, "{} of {count} datagrams came", got.len());
        got
    }

    /// Waits for the sender's next notice.
    pub(crate) fn notice(&self) -> Notice {
        let mut notice = None;
        let came = eventually(|| {
            notice = self.sender.take_notice().expect("readable");
            notice.is_some()
        });
        assert!(came, "a notice comes");
        notice.expect("came")
    }
}

/// Binds a socket at an end, at any port.
pub(crate) fn bound(network: &Network, end: End, v6: bool) -> UdpSocket {
    let opened = network.node_of(end).run(|| UdpSocket::open(&Setup::at(end.port(v6, 0))));
    opened.expect("an address of ours")
}
