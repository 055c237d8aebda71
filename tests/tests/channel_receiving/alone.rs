//! The faults of a client or sender affect its own channel and no other.

use std::sync::atomic::Ordering;

use punctual_channel::client::Geometry;
use punctual_channel::rings::{Made, Puts, Side, Takes, map};
use punctual_channel::server::receiver::{Ended, Receiver};
use punctual_linux::memfd::Writable;
use punctual_model::Duration;
use punctual_model::channel::Framing;
use punctual_ring::frames::Corrupt;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use system_tests::network::Network;

use crate::host::{Host, MAX, OTHER, content, fragments, send, terms};

const BOUND: Option<Duration> = Some(Duration::from_millis(50));

/// Makes a ring whose client page this process can write, as a client can its own.
fn ring(geometry: Geometry) -> (Writable, Side<Takes>, Side<Puts>) {
    let (made, passed) = Made::<Puts>::new(geometry, 0).expect("memory");
    let page = passed.page.try_clone().expect("descriptors");
    let page = Writable::of(page, Geometry::CONSUMER_BYTES).expect("the client's to write");
    let client = map(passed, geometry, 0).expect("as made");
    made.seal().expect("ours");
    (page, client, made.freeze().expect("as made"))
}

#[test]
fn a_client_that_never_reads_loses_its_own_messages_alone() {
    let Some(network) = Network::line(2) else { return };
    let mut host = Host::start(Receiver::new().expect("descriptors"), OTHER);
    let idle = host.open(&network, 1, terms(Framing::Datagram, BOUND), 8);
    let mut reads = host.open(&network, 2, terms(Framing::Datagram, BOUND), 8);
    for message in 0..500 {
        idle.send(Framing::Datagram, message, 100);
        reads.send(Framing::Datagram, message, 100);
        assert_eq!(reads.receive().map(|got| got.0), Some(content(message, 100)));
    }
    let counters = idle.accounted(|counters| counters.received + counters.losses.total() == 500);
    assert_eq!((counters.received, counters.losses.ring_full), (8, 492), "{counters:?}");
    assert_eq!(reads.counters().losses.total(), 0);
}

#[test]
fn a_ring_that_makes_no_sense_is_closed_and_reported_and_others_go_on() {
    let Some(network) = Network::line(2) else { return };
    let mut host = Host::start(Receiver::new().expect("descriptors"), OTHER);
    let mut honest = host.open(&network, 2, terms(Framing::Fragments, BOUND), 64);
    for (at, word) in [(0, 1 << 40), (0, u64::MAX)] {
        let geometry = Geometry::new(2, MAX).expect("valid");
        let (page, _client, side) = ring(geometry);
        let bound = terms(Framing::Datagram, BOUND);
        let (account, sender) = host.open_with(&network, 1, bound, side);
        page.words()[at].store(word, Ordering::Relaxed);
        for _ in 0..5 {
            send(&sender, b"x");
        }
        let (id, channel, ended) = host.ended();
        assert_eq!(id, 1);
        assert!(matches!(ended, Ended::Corrupt(Corrupt::Released { .. })), "{ended}");
        assert!(account.snapshot().received <= 2);
        drop(channel);
    }
    for message in 0..50 {
        honest.send(Framing::Fragments, message, MAX);
        assert_eq!(honest.receive().map(|got| got.0), Some(content(message, MAX)));
    }
    assert_eq!(honest.counters().losses.total(), 0);
}

/// Garbage, false counts, repetitions and pieces in any order come among honest messages.
#[test]
fn hostile_fragments_cost_no_honest_message() {
    let Some(network) = Network::line(2) else { return };
    let mut host = Host::start(Receiver::new().expect("descriptors"), OTHER);
    let mut client = host.open(&network, 1, terms(Framing::Fragments, BOUND), 64);
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut sent = 0;
    for message in 0..200_u64 {
        let honest = fragments(message, MAX);
        for piece in honest.iter().rev() {
            let mut lie = piece.clone();
            match rng.random_range(0..4) {
                0 => lie[4..8].fill(0),
                1 => lie.truncate(rng.random_range(0..lie.len())),
                2 => lie[20..24].fill(0xff),
                _ => lie[..2].fill(rng.random_range(0x60..=0xff)),
            }
            send(&client.sender, &lie);
            send(&client.sender, piece);
            sent += 2;
        }
        send(&client.sender, &honest[0]);
        sent += 1;
        assert_eq!(client.receive().map(|got| got.0), Some(content(message, MAX)));
    }
    let counters = client.accounted(|counters| counters.datagrams.arrived == sent);
    assert_eq!((counters.received, counters.losses.total()), (200, 0), "{counters:?}");
    assert_eq!(counters.datagrams.refused, 200 * 4, "{counters:?}");
}
