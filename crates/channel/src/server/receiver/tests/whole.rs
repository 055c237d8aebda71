//! Tests that messages come complete and in order.

use std::net::SocketAddr;

use punctual_linux::clock;
use punctual_linux::net::{Setup, UdpSocket};
use punctual_model::channel::Framing;
use punctual_model::{Duration, Instant};
use punctual_ring::frames::Rest;

use super::rig::{Client, MAX, Rig, content, promised, spaced, terms};
use crate::rings::{Puts, both};
use crate::server::receiver::{OpenError, Opening};
use crate::server::ringer::Ringers;

#[test]
fn messages_of_both_framings_come_whole_in_order_and_stamped() {
    let mut rig = Rig::new();
    let mut datagrams = rig.open(1, promised(Framing::Datagram), 256);
    let mut fragments = rig.open(2, promised(Framing::Fragments), 256);
    let before = clock::now();
    for message in 0..200_u64 {
        let length = 1 + (message as u32 * 37) % MAX;
        datagrams.send(&content(message, length));
        fragments.send_in_fragments(message, length);
        if message % 3 == 0 {
            rig.turn();
        }
    }
    rig.settle(&datagrams, 200);
    rig.settle(&fragments, 200);
    let after = clock::now();
    for client in [&mut datagrams, &mut fragments] {
        let got = client.take();
        assert_eq!(got.len(), 200);
        let mut last = before;
        for (message, (bytes, arrived)) in got.into_iter().enumerate() {
            let length = 1 + (message as u32 * 37) % MAX;
            assert_eq!(bytes, content(message as u64, length), "{message}");
            assert!(last <= arrived && arrived <= after, "{last:?} {arrived:?} {after:?}");
            last = arrived;
        }
        let account = rig.account(client);
        assert_eq!((account.received, account.losses.total(), account.open), (200, 0, 0));
        assert_eq!(account.residences.count(), 200);
    }
    assert_eq!(rig.account(&datagrams).losses.network, None);
    assert_eq!(rig.account(&fragments).losses.network, Some(0));
    // The sender stamped with the clock of this host.
    assert_eq!(rig.account(&fragments).delays.count(), 200);
}

#[test]
fn a_client_that_sleeps_is_woken_once() {
    let mut rig = Rig::new();
    let mut client = rig.open(1, promised(Framing::Datagram), 16);
    rig.turn();
    assert_eq!(client.takes.rest().expect("sound"), Rest::Sleep);
    client.send(b"one");
    client.send(b"two");
    rig.settle(&client, 2);
    assert_eq!(client.bell.wait(Instant::MAX), Ok(punctual_linux::pass::WaitOutcome::Rung));
    client.takes.rise();
    assert_eq!(client.take().len(), 2);
    assert_eq!(client.bell.wait(Instant::ZERO), Ok(punctual_linux::pass::WaitOutcome::TimedOut));
}

/// Checks that a late receiver does not mistake a backlog of its own for a burst.
#[test]
fn a_backlog_of_the_receiver_is_not_a_burst_of_the_sender() {
    let mut rig = Rig::new();
    let spacing = Duration::from_millis(2);
    let terms = spaced(Framing::Datagram, spacing, 1);
    // The kernel switches stamps on in the background.
    let mut client = rig.open(1, terms, 64);
    let mut stamped = 0;
    rig.until(|rig| {
        clock::sleep(spacing);
        client.send(b"first");
        stamped += 1;
        clock::sleep(spacing);
        rig.turn();
        client.take();
        rig.account(&client).worst_residence >= spacing
    });
    let lost = rig.account(&client).losses.total();
    for message in 0..30 {
        clock::sleep(spacing);
        client.send(&content(message, 10));
    }
    let account = rig.settle(&client, stamped + 30);
    assert_eq!(account.losses.total(), lost, "{account:?}");
    assert_eq!(client.take().len(), 30);
}

#[test]
fn the_most_urgent_is_served_first_and_best_effort_last() {
    let mut rig = Rig::new();
    let with = |millis| terms(Framing::Datagram, Some(Duration::from_millis(millis)));
    let clients = [
        rig.open(1, terms(Framing::Datagram, None), 64),
        rig.open(2, with(50), 64),
        rig.open(3, with(5), 64),
        rig.open(4, terms(Framing::Datagram, None), 64),
    ];
    rig.turn();
    rig.turns.clear();
    for client in &clients {
        for _ in 0..20 {
            client.send(b"x");
        }
    }
    // Over the loopback, a datagram has nearly always come when the call returns.
    clock::sleep(Duration::from_millis(50));
    rig.turn();
    for client in &clients {
        assert_eq!(rig.settle(client, 20).received, 20);
    }
    // Twenty are two quanta; the others take turns.
    let first: Vec<u64> = rig.turns.iter().copied().take(8).collect();
    assert_eq!(first, [3, 3, 2, 2, 1, 4, 1, 4]);
}

#[test]
fn a_closed_channel_gives_back_its_port_and_its_account() {
    let mut rig = Rig::new();
    let client = rig.open(1, promised(Framing::Fragments), 64);
    let other = rig.open(2, promised(Framing::Datagram), 64);
    client.send_in_fragments(0, MAX);
    client.send(&Client::fragments(1, MAX)[0]);
    rig.until(|rig| rig.account(&client).datagrams.arrived == 4);
    let closed = rig.receiver.close(clock::now(), 1).expect("open");
    assert!(rig.receiver.close(clock::now(), 1).is_none());
    assert!(rig.receiver.get(1).is_none());
    let account = closed.account().snapshot();
    assert_eq!((account.received, account.losses.total(), account.open), (1, 0, 1));
    let at: SocketAddr = client.listens;
    assert!(UdpSocket::open(&Setup::at(at)).is_err(), "open until it is taken apart");
    drop(closed);
    let again = UdpSocket::open(&Setup::at(at)).expect("free");
    // Events and instants of the previous channel do not affect the next one in its place.
    let next = rig.open(1, promised(Framing::Datagram), 64);
    again.drops().expect("Linux 4.12");
    next.send(b"x");
    other.send(b"y");
    assert_eq!(rig.settle(&next, 1).received, 1);
    assert_eq!(rig.settle(&other, 1).received, 1);
}

#[test]
fn a_channel_that_cannot_be_opened_is_refused_with_the_reason() {
    let mut rig = Rig::new();
    let _client = rig.open(1, promised(Framing::Datagram), 16);
    let opening = |max| {
        let geometry = punctual_ring::frames::Geometry::new(4, max).expect("valid");
        let (_client, server) = both::<Puts>(geometry).expect("memory");
        let socket = UdpSocket::open(&Setup::at("127.0.0.1:0".parse().expect("valid")));
        let bell = Ringers::default().enter(0, server.bell).expect("a thread");
        Opening::new(promised(Framing::Datagram), socket.expect("opens"), server.end, bell)
    };
    let small = OpenError::SlotsTooSmall { bytes: MAX - 1, wanted: MAX };
    assert_eq!(opening(MAX - 1).err(), Some(small));
    let same = opening(MAX).expect("fits");
    assert_eq!(rig.receiver.open(clock::now(), 1, same), Err(OpenError::Taken { id: 1 }));
}
