//! Tests clients and senders that do what no honest one does.

use punctual_linux::clock;
use punctual_model::Duration;
use punctual_model::channel::Framing;
use punctual_ring::frames::Corrupt;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::atomic::Ordering;

use super::rig::{Client, MAX, Rig, content, promised};
use crate::server::receiver::Ended;

#[test]
fn a_client_that_does_not_read_loses_its_own_messages_alone() {
    let mut rig = Rig::new();
    let mut idle = rig.open(1, promised(Framing::Datagram), 16);
    let mut in_pieces = rig.open(2, promised(Framing::Fragments), 16);
    let mut other = rig.open(3, promised(Framing::Datagram), 16);
    for message in 0..100 {
        idle.send(&content(message, 100));
        in_pieces.send_in_fragments(message, 900);
        other.send(&content(message, 100));
        rig.settle(&other, message + 1);
        assert_eq!(other.take().len(), 1);
    }
    for client in [&mut idle, &mut in_pieces] {
        let account = rig.settle(client, 100);
        assert_eq!((account.received, account.losses.ring_full), (16, 84), "{account:?}");
        let got = client.take();
        // The oldest are there, in order; once there is room others come.
        assert!((0..16).all(|at| got[at].0 == content(at as u64, got[at].0.len() as u32)));
        assert_eq!(got.len(), 16);
    }
    idle.send(&content(100, 100));
    rig.settle(&idle, 101);
    assert_eq!(idle.take()[0].0, content(100, 100));
    assert_eq!(rig.account(&other).losses.total(), 0);
}

#[test]
fn a_ring_that_makes_no_sense_ends_its_channel_alone() {
    let mut rig = Rig::new();
    for framing in [Framing::Datagram, Framing::Fragments] {
        let broken = rig.open(1, promised(framing), 4);
        let mut other = rig.open(2, promised(framing), 64);
        // More messages released than were ever pushed.
        broken.page.words()[0].store(77, Ordering::Relaxed);
        for message in 0..20 {
            match framing {
                Framing::Datagram => {
                    broken.send(b"x");
                    other.send(&content(message, 50));
                }
                Framing::Fragments => {
                    broken.send_in_fragments(message, MAX);
                    other.send_in_fragments(message, 50);
                }
            }
        }
        rig.until(|rig| !rig.ended.is_empty());
        let (id, channel, ended) = rig.ended.pop().expect("one");
        assert_eq!(id, 1);
        assert!(matches!(ended, Ended::Corrupt(Corrupt::Released { released: 77, .. })), "{ended}");
        // Four fitted in before the receiver looked at the client's page.
        assert!(channel.account().snapshot().received <= 4);
        assert_eq!(rig.settle(&other, 20).received, 20);
        assert_eq!(other.take().len(), 20);
        assert!(rig.receiver.close(clock::now(), 2).is_some());
    }
}

#[test]
fn messages_outside_the_contract_are_discarded_and_counted() {
    let mut rig = Rig::new();
    let mut client = rig.open(1, promised(Framing::Datagram), 16);
    client.send(&[]);
    client.send(&content(1, MAX + 1));
    client.send(&content(2, MAX));
    let account = rig.settle(&client, 3);
    assert_eq!((account.received, account.losses.discarded), (1, 2), "{account:?}");
    assert_eq!(client.take()[0].0, content(2, MAX));
}

/// Checks that honest messages of the same channel are reassembled whatever comes, and that nothing
/// ends.
#[test]
fn hostile_fragments_are_refused_and_counted() {
    let mut rig = Rig::new();
    let mut client = rig.open(1, promised(Framing::Fragments), 256);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut hostile = 0;
    for message in 0..100 {
        client.send_in_fragments(message, 900);
        for datagram in Client::fragments(message, 900) {
            let mut lie = datagram;
            match rng.random_range(0..5) {
                // Another channel, another program, longer than declared, finer than agreed, from
                // the future.
                0 => lie[7] ^= 1,
                1 => lie[0] = 0,
                2 => lie[20] = 0xff,
                3 => lie[2..4].copy_from_slice(&[0, 1]),
                _ => lie[8..16].fill(0xff),
            }
            client.send(&lie);
            hostile += 1;
        }
        client.send(&[0; 3]);
        hostile += 1;
        rig.turn();
    }
    let account = rig.settle(&client, 100);
    assert_eq!((account.received, account.losses.total()), (100, 0), "{account:?}");
    rig.until(|rig| rig.account(&client).datagrams.refused == hostile);
    let got = client.take();
    assert!(got.iter().enumerate().all(|(at, got)| got.0 == content(at as u64, 900)));
    assert!(rig.ended.is_empty());
}

/// Checks that a message that lacks a fragment is known by its number, and one that never came,
/// too.
#[test]
fn each_lost_message_has_one_cause() {
    let mut rig = Rig::new();
    let client = rig.open(1, promised(Framing::Fragments), 256);
    for message in 0..200_u64 {
        match message % 10 {
            3 => {}
            7 => client.send(&Client::fragments(message, 900)[1]),
            _ => client.send_in_fragments(message, 900),
        }
        rig.turn();
    }
    // Losses are known when newer messages are 64 later.
    for message in 200..264 {
        client.send_in_fragments(message, 10);
        rig.turn();
    }
    rig.until(|rig| rig.account(&client).losses.reassembly == 20);
    let account = rig.account(&client);
    let sent = 264;
    assert_eq!(
        account.received + account.losses.total() + u64::from(account.open),
        sent,
        "{account:?}"
    );
    assert_eq!((account.losses.network, account.losses.reassembly), (Some(20), 20), "{account:?}");
    assert!(account.worst_residence < Duration::from_secs(20));
}
