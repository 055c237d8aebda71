//! Every message that is sent arrives, or is counted under its cause.

use punctual_channel::server::receiver::Receiver;
use punctual_linux::clock;
use punctual_linux::net::route::Discipline;
use punctual_linux::net::{Setup, UdpSocket};
use punctual_model::Duration;
use punctual_model::channel::Framing;
use system_tests::live::eventually;
use system_tests::network::{Network, higher, lower};

use crate::host::{Host, MAX, OTHER, content, fragments, send, terms};

const BOUND: Option<Duration> = Some(Duration::from_millis(50));

#[test]
fn messages_come_whole_in_order_with_numbers_and_stamps() {
    let Some(network) = Network::line(2) else { return };
    let mut host = Host::start(Receiver::new().expect("descriptors"), OTHER);
    let both = [(Framing::Datagram, 1_400), (Framing::Fragments, MAX)];
    for (at, (framing, most)) in [both, both].as_flattened().iter().enumerate() {
        let mut client = host.open(&network, at as u64, terms(*framing, BOUND), 64);
        let before = clock::now();
        let mut last = before;
        for message in 0..300_u64 {
            let length = 1 + (message as u32 * 137) % most;
            client.send(*framing, message, length);
            let (bytes, number, arrived) = client.receive().expect("comes");
            assert_eq!((bytes, number), (content(message, length), message));
            assert!(last <= arrived && arrived <= clock::now(), "{message}");
            last = arrived;
        }
        let counters = client.counters();
        assert_eq!((counters.received, counters.losses.total(), counters.open), (300, 0, 0));
        let delays = if *framing == Framing::Fragments { 300 } else { 0 };
        assert_eq!((counters.delays.count(), counters.residences.count()), (delays, 300));
        host.close(client.id);
    }
}

/// A link that is too slow loses fragments: each message is received or counted under one cause.
#[test]
fn losses_on_the_way_add_up() {
    let Some(network) = Network::line(2) else { return };
    let slow = Discipline::Tbf { rate: 2_000_000, burst_bytes: 3_200, limit_bytes: 8_000 };
    if let Err(why) = network.set_discipline(lower(0), slow) {
        println!("skipped: {why}");
        return;
    }
    let mut host = Host::start(Receiver::new().expect("descriptors"), OTHER);
    let mut client = host.open(&network, 1, terms(Framing::Fragments, BOUND), 1_024);
    let mut sent = 0;
    for _ in 0..20 {
        for _ in 0..20 {
            client.send(Framing::Fragments, sent, 1 + (sent as u32 * 331) % MAX);
            sent += 1;
        }
        clock::sleep(Duration::from_millis(5));
        client.drain();
    }
    // A loss is known once newer messages have come; these all pass.
    for _ in 0..80 {
        client.send(Framing::Fragments, sent, 10);
        sent += 1;
        clock::sleep(Duration::from_millis(1));
    }
    let counters = client.accounted(|counters| {
        counters.open == 0 && counters.received + counters.losses.total() == sent
    });
    assert!(counters.losses.network > Some(0) && counters.losses.reassembly > 0, "{counters:?}");
    assert!(counters.received >= 80, "{counters:?}");
    assert_eq!(
        counters.losses.total(),
        counters.losses.network.unwrap_or(0) + counters.losses.reassembly
    );
}

/// All five causes occur in one channel, as far as they can be told from datagrams.
#[test]
fn every_cause_is_counted_apart() {
    let Some(network) = Network::line(2) else { return };
    let mut host = Host::start(Receiver::new().expect("descriptors"), OTHER);
    let client = host.open(&network, 1, terms(Framing::Fragments, BOUND), 16);
    let mut sent = 0;
    let mut next = |skip: u64| {
        sent += 1 + skip;
        sent - 1
    };
    // The ring is full after sixteen messages.
    for _ in 0..20 {
        client.send(Framing::Fragments, next(0), MAX);
    }
    client.accounted(|counters| counters.received + counters.losses.ring_full == 20);
    // Four messages that are never sent, and three that lack a piece.
    next(3);
    for _ in 0..3 {
        send(&client.sender, &fragments(next(0), MAX)[0]);
    }
    for _ in 0..70 {
        client.send(Framing::Fragments, next(0), 5);
    }
    let all = sent;
    let counters = client.accounted(|counters| counters.received + counters.losses.total() == all);
    let losses = counters.losses;
    assert_eq!((counters.received, losses.ring_full), (16, 4 + 70), "{counters:?}");
    assert_eq!(
        (losses.network, losses.reassembly, losses.discarded),
        (Some(4), 3, 0),
        "{counters:?}"
    );
}

#[test]
fn a_closed_channel_listens_no_more() {
    let Some(network) = Network::line(2) else { return };
    let mut host = Host::start(Receiver::new().expect("descriptors"), OTHER);
    let mut client = host.open(&network, 1, terms(Framing::Datagram, BOUND), 16);
    client.send(Framing::Datagram, 0, 9);
    assert!(client.receive().is_some());
    let channel = host.close(1);
    let at = channel.socket().local_address().expect("bound");
    assert_eq!(channel.account().snapshot().received, 1);
    drop(channel);
    // A program that another test is starting holds a copy of each descriptor until it is executed.
    let free = || network.node_of(higher(0)).run(|| UdpSocket::open(&Setup::at(at)));
    assert!(eventually(|| free().is_ok()), "{:?}", free());
    // The server's end of the bell was closed with it.
    assert!(client.receive().is_none());
}
