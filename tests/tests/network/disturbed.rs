//! The network changes under a stream: each change has its own error, and sending goes on after it.

use punctual_linux::clock;
use punctual_linux::net::watch::{Change, Watch};
use punctual_linux::net::{
    Fault, FaultKind, Notice, OpenError, Outgoing, Place, SendError, Setup, UdpSocket,
};
use punctual_model::{Duration, Instant};
use system_tests::live::eventually;
use system_tests::network::{Network, higher, lower};

use crate::pair::{Pair, for_each_family};

/// Returns the fault of a datagram of `bytes`. The pending error that reports the fault first is
/// consumed.
fn fault(pair: &Pair) -> Fault {
    match pair.notice() {
        Notice::Fault(fault) => fault,
        Notice::Sent(sent) => panic!("{sent:?} was not asked for"),
    }
}

/// Returns the fault of a datagram to a closed port. A kernel limits how often it reports that to
/// all senders together (icmp_msgs_per_sec, ip-sysctl.rst), so this tries again.
fn refused(pair: &Pair) -> Fault {
    let (mut found, mut next) = (None, Instant::ZERO);
    let came = eventually(|| {
        if clock::now() >= next {
            assert_eq!(try_send(pair, 1), Ok(()));
            next = clock::now() + Duration::from_secs(2);
        }
        found = pair.sender.take_notice().expect("readable");
        found.is_some()
    });
    match found {
        Some(Notice::Fault(fault)) if came => fault,
        other => panic!("{other:?}"),
    }
}

fn try_send(pair: &Pair, bytes: usize) -> Result<(), SendError> {
    pair.sender.send(&Outgoing::new(&[Place::of(&vec![1; bytes])]))
}

#[test]
fn a_shorter_mtu_refuses_with_its_number_and_shorter_datagrams_go() {
    for_each_family(|mut pair, _| {
        let header = pair.sender.header_bytes();
        assert_eq!(pair.sender.longest_payload(), Ok(1500 - header));
        let longest = 1500 - header as usize;
        assert_eq!(try_send(&pair, longest), Ok(()));
        pair.network.set_mtu_of_link(0, 1300);
        let refused = Err(SendError::TooLong { bytes: longest, mtu: Some(1300) });
        assert_eq!(try_send(&pair, longest), refused);
        let kind = FaultKind::MtuChanged { mtu: 1300 };
        assert_eq!(fault(&pair).kind, kind);
        let longest = pair.sender.longest_payload().expect("connected");
        assert_eq!((longest, try_send(&pair, longest as usize)), (1300 - header, Ok(())));
        pair.network.set_mtu_of_link(0, 1500);
        assert_eq!(try_send(&pair, 1500 - header as usize), Ok(()));
        let got: Vec<usize> = pair.receive(3).iter().map(Vec::len).collect();
        assert_eq!(got, [1500, 1300, 1500].map(|mtu| mtu - header as usize));
    });
}

#[test]
fn a_shorter_mtu_behind_a_router_becomes_known() {
    for v6 in [false, true] {
        let Some(network) = Network::line(3) else { return };
        let mut pair = Pair::over(network, lower(0), higher(1), v6);
        pair.send(&[1; 1400]);
        pair.receive(1);
        pair.network.set_mtu_of_link(1, 1350);
        pair.send(&[1; 1400]);
        let Fault { kind, to, by } = fault(&pair);
        assert_eq!(kind, FaultKind::MtuChanged { mtu: 1350 });
        assert_eq!(to.map(|to| to.ip()), Some(higher(1).address(v6)));
        assert_eq!(by, Some(higher(0).address(v6)), "the router says so");
        assert_eq!(pair.sender.path_mtu(), Ok(1350));
        let refused = Err(SendError::TooLong { bytes: 1400, mtu: Some(1350) });
        assert_eq!(try_send(&pair, 1400), refused);
        let longest = pair.sender.longest_payload().expect("connected") as usize;
        assert!(eventually(|| try_send(&pair, longest).is_ok()));
        assert_eq!(pair.receive(1)[0].len(), longest);
    }
}

#[test]
fn a_closed_port_refuses_and_an_opened_one_receives() {
    for_each_family(|mut pair, v6| {
        let there = pair.receiver.local_address().expect("bound");
        let node = pair.network.node(1);
        // Nothing takes its place.
        pair.receiver =
            node.run(|| UdpSocket::open(&Setup::at(higher(0).port(v6, 0)))).expect("opens");
        let gone = refused(&pair);
        assert_eq!((gone.kind, gone.to), (FaultKind::PortUnreachable, Some(there)));
        assert_eq!(gone.by, Some(higher(0).address(v6)));
        pair.receiver = node.run(|| UdpSocket::open(&Setup::at(there))).expect("opens");
        // Reading the notice also consumed the pending error.
        assert_eq!(try_send(&pair, 1), Ok(()));
        pair.receive(1);
        assert_eq!(pair.sender.take_notice(), Ok(None));
        let taken = pair.network.node(1).run(|| UdpSocket::open(&Setup::at(there)));
        assert_eq!(taken.err(), Some(OpenError::Taken { local: there }));
    });
}

#[test]
fn a_link_goes_down_and_comes_up() {
    for_each_family(|mut pair, _| {
        let (here, there) = (lower(0), higher(0));
        let watch = pair.network.node_of(here).run(Watch::open).expect("opens");
        let index = pair.network.interface(here).index;
        let seen = |up: bool, carrier: bool| {
            let is = |change: &Change| match change {
                Change::Link { index: of, up: u, carrier: c, .. } => {
                    (*of, *u, *c) == (index, up, carrier)
                }
                _ => false,
            };
            assert!(
                eventually(|| watch.changes().expect("few").iter().any(is)),
                "up {up}, carrier {carrier} is told"
            );
        };
        // This end is down: sending fails.
        pair.network.set_up(here, false);
        seen(false, false);
        let refused = try_send(&pair, 1);
        assert!(
            matches!(refused, Err(SendError::Unreachable { .. } | SendError::LinkDown { .. })),
            "{refused:?}"
        );
        pair.network.set_up(here, true);
        seen(true, true);
        assert!(eventually(|| try_send(&pair, 2).is_ok()));
        pair.receive(1);
        // The other end is down: datagrams vanish without an error, and only the watch reports it.
        pair.network.set_up(there, false);
        seen(true, false);
        pair.network.set_up(there, true);
        seen(true, true);
        while pair.receiver.receive(&mut pair.inbox).expect("received") > 0 {}
        // Neighbour discovery may have given up meanwhile; it tries again.
        assert!(eventually(|| {
            let _ = try_send(&pair, 3);
            pair.receiver.receive(&mut pair.inbox).expect("received") > 0
        }));
    });
}

#[test]
fn the_address_goes_away_and_comes_back() {
    for_each_family(|mut pair, v6| {
        let here = lower(0);
        let watch = pair.network.node_of(here).run(Watch::open).expect("opens");
        let (index, address) = (pair.network.interface(here).index, here.address(v6));
        assert_eq!(try_send(&pair, 1), Ok(()));
        pair.network.set_address(here, v6, false);
        let gone = Change::AddressGone { index, address };
        assert!(eventually(|| watch.changes().expect("few").contains(&gone)));
        let refused = try_send(&pair, 1);
        assert!(
            matches!(refused, Err(SendError::AddressGone | SendError::Unreachable { .. })),
            "{refused:?}"
        );
        pair.network.set_address(here, v6, true);
        let back = Change::Address { index, address };
        assert!(eventually(|| watch.changes().expect("few").contains(&back)));
        assert!(eventually(|| try_send(&pair, 2).is_ok()));
        assert_eq!(pair.receive(2).concat().len(), 3);
    });
}

#[test]
fn a_socket_that_cannot_be_opened_fails_with_the_reason() {
    let Some(network) = Network::line(2) else { return };
    let open = |setup: Setup| network.node(0).run(|| UdpSocket::open(&setup).err());
    let (ours, theirs) = (lower(0).port(false, 9), higher(0).port(false, 9));
    assert_eq!(open(Setup::at(theirs)), Some(OpenError::NotOurs { local: theirs }));
    let device = "absent".to_owned();
    assert_eq!(open(Setup::at(ours).on(&device)), Some(OpenError::NoDevice { device }));
    let remote = "192.0.2.1:9".parse().expect("an address");
    assert_eq!(open(Setup::to(remote)), Some(OpenError::NoRoute { remote }));
    let remote = higher(0).port(true, 9);
    let mixed = Setup { remote: Some(remote), ..Setup::at(ours) };
    assert_eq!(open(mixed), Some(OpenError::MixedFamilies { local: ours, remote }));
    // Bound to an interface, it receives from that one only.
    let listener = network.node(1).run(|| UdpSocket::open(&Setup::at(theirs).on("lo")));
    let listener = listener.expect("root may");
    let sender = network.node(0).run(|| UdpSocket::open(&Setup::to(theirs))).expect("opens");
    sender.send(&Outgoing::new(&[Place::of(&[1])])).expect("sent");
    assert!(eventually(|| matches!(
        sender.take_notice(),
        Ok(Some(Notice::Fault(Fault { kind: FaultKind::PortUnreachable, .. })))
    )));
    assert_eq!(listener.local_address(), Ok(theirs));
}

#[test]
fn several_sockets_share_a_port() {
    for_each_family(|mut pair, v6| {
        let setup = Setup { share_port: true, ..Setup::at(higher(0).port(v6, 4000)) };
        let open = || UdpSocket::open(&setup).expect("shared");
        let sockets = pair.network.node(1).run(|| [open(), open()]);
        let to = higher(0).port(v6, 4000);
        // Sixty-four flows: all on one of two sockets by chance once in 2^63.
        for _ in 0..64 {
            let sender = pair.network.node(0).run(|| UdpSocket::open(&Setup::to(to)));
            sender.expect("opens").send(&Outgoing::new(&[Place::of(&[1])])).expect("sent");
        }
        let mut got = [0; 2];
        assert!(eventually(|| {
            for (count, socket) in got.iter_mut().zip(&sockets) {
                *count += socket.receive(&mut pair.inbox).expect("received");
            }
            got[0] + got[1] == 64
        }));
        assert!(got.iter().all(|&count| count > 0), "{got:?}");
    });
}
