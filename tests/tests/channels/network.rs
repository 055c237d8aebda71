//! A network between two namespaces changes under a channel.

use std::net::UdpSocket;
use std::time::Duration as Time;

use punctual_client::wire::Counts;
use punctual_model::channel::Framing;
use system_tests::live;
use system_tests::network::{Network, higher, lower};

use crate::host::{Broker, CONFIG, alone, number_of, numbered, open_sending, to};

/// Sends messages from the broker's node to the other one. During a fault they are lost, and
/// counted; when it is repaired they arrive again, without reopening anything.
fn through(v6: bool, wrong: impl Fn(&Network, bool)) {
    let Some(_alone) = alone() else { return };
    let Some(network) = Network::line(2) else { return };
    let broker = Broker::start_in(Some(network.node(0)), CONFIG);
    let address = higher(0).port(v6, 4_000);
    let socket = network.node(1).run(|| UdpSocket::bind(address).expect("its address"));
    socket.set_read_timeout(Some(Time::from_millis(100))).expect("a socket");
    let mut connection = broker.connect();
    let (granted, mut sending) =
        open_sending(&mut connection, &to(address, 1_400, 1_000, Framing::Datagram));
    let mut number = 0;
    let mut arrives = || {
        sending.send(&numbered(number, 1_400)).expect("a server");
        number += 1;
        let mut buffer = [0; 2_000];
        let mut last = None;
        while let Ok(bytes) = socket.recv(&mut buffer) {
            last = Some(number_of(&buffer[..bytes]));
            if last == Some(number - 1) {
                return true;
            }
        }
        last.is_some() && last == Some(number - 1)
    };
    assert!(live::eventually(&mut arrives));
    wrong(&network, true);
    for _ in 0..5 {
        let _ = arrives();
    }
    wrong(&network, false);
    assert!(live::eventually(&mut arrives), "it does not go on");
    let seen = || broker.channel(&granted).counts.expect("attached");
    let is_accounted = |counts: &Counts| {
        let lost: u64 = counts.lost.iter().map(|(_, count)| count).sum();
        counts.done + lost == counts.offered && counts.offered == u64::from(number)
    };
    assert!(live::eventually(|| is_accounted(&seen())), "{number} sent: {:?}", seen());
}

#[test]
fn a_link_goes_down_and_comes_up() {
    for v6 in [false, true] {
        through(v6, |network, wrong| {
            network.set_up(lower(0), !wrong);
        });
    }
}

#[test]
fn an_mtu_becomes_too_small_and_large_again() {
    for v6 in [false, true] {
        through(v6, |network, wrong| {
            network.set_mtu_of_link(0, if wrong { 1_300 } else { 1_500 });
        });
    }
}

#[test]
fn an_address_is_gone_and_comes_back() {
    through(false, |network, wrong| network.set_address(lower(0), false, !wrong));
}

#[test]
fn messages_that_are_too_long_for_the_path_are_lost_and_said_so() {
    let Some(_alone) = alone() else { return };
    let Some(network) = Network::line(2) else { return };
    network.set_mtu_of_link(0, 1_300);
    let broker = Broker::start_in(Some(network.node(0)), CONFIG);
    let mut connection = broker.connect();
    let address = higher(0).port(false, 4_000);
    let (granted, mut sending) =
        open_sending(&mut connection, &to(address, 1_400, 1_000, Framing::Datagram));
    for _ in 0..10 {
        sending.send(&[1; 1_400]).expect("a server");
    }
    let refused = || {
        let lost = broker.channel(&granted).counts.expect("attached").lost;
        lost == [("refused".to_owned(), 10)]
    };
    assert!(live::eventually(refused), "{:?}", broker.channel(&granted));
    assert!(broker.channel(&granted).broken);
}
