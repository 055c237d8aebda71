//! Tests more traffic than was declared, and more than can be served.

use punctual_linux::clock;
use punctual_model::Duration;
use punctual_model::channel::Framing;

use super::rig::{Client, Rig, content, spaced, terms};
use crate::server::receiver::{QUANTUM, Terms};

#[test]
fn a_sender_that_breaks_its_contract_is_read_no_more_than_was_charged() {
    let mut rig = Rig::new();
    for framing in [Framing::Datagram, Framing::Fragments] {
        let flood = rig.open(1, spaced(framing, Duration::from_secs(1_000), 5), 1_024);
        let honest = rig.open(2, spaced(framing, Duration::from_micros(10), 1_000), 1_024);
        let send = |client: &Client, message| match framing {
            Framing::Datagram => client.send(b"x"),
            Framing::Fragments => client.send_in_fragments(message, 8),
        };
        // Six messages, of up to three fragments each.
        let charged = if framing == Framing::Datagram { 6 } else { 18 };
        for message in 0..200 {
            send(&flood, message);
            if message < 100 {
                send(&honest, message);
            }
            rig.turn();
        }
        rig.until(|rig| rig.account(&flood).datagrams.arrived >= charged);
        assert_eq!(rig.settle(&honest, 100).received, 100);
        clock::sleep(Duration::from_millis(20));
        rig.turn();
        let account = rig.account(&flood);
        assert_eq!(account.datagrams.arrived, charged, "{account:?}");
        assert_eq!((account.received, account.losses.discarded), (5, charged - 5), "{account:?}");
        // What comes now does not wake the thread.
        send(&flood, 200);
        assert!(rig.receiver.get(1).expect("open").paused);
        assert!(!rig.receiver.wait(clock::now() + Duration::from_micros(10), clock::now));
        for id in [1, 2] {
            rig.receiver.close(clock::now(), id).expect("open");
        }
    }
}

/// Checks that what waits behind the regulator is read when it is time, and nothing is lost.
#[test]
fn a_burst_beyond_what_was_charged_waits_in_the_socket_and_is_read_later() {
    let mut rig = Rig::new();
    for framing in [Framing::Datagram, Framing::Fragments] {
        // The network may bunch them.
        let bunched = Duration::from_secs(1_000);
        let terms = Terms { unevenness: bunched, ..spaced(framing, Duration::from_millis(3), 1) };
        let mut client = rig.open(1, terms, 64);
        for message in 0..30 {
            match framing {
                Framing::Datagram => client.send(&content(message, 50)),
                Framing::Fragments => client.send_in_fragments(message, 900),
            }
        }
        let before = clock::now();
        rig.until(|rig| rig.account(&client).received == 30);
        // 28 messages or 84 fragments after those of the burst, and eight ninths of the spacing.
        let passed = clock::now().saturating_since(before);
        assert!(passed >= Duration::from_millis(28 * 3 * 8 / 9 - 3), "{passed}");
        assert_eq!(client.take().len(), 30);
        assert_eq!(rig.account(&client).losses.total(), 0);
        rig.receiver.close(clock::now(), 1).expect("open");
    }
}

/// Checks that traffic beyond the contract is discarded by a filter, counted, and kept again when
/// it is less.
#[test]
fn overload_is_discarded_before_the_socket_and_counted() {
    let mut rig = Rig::new();
    // A message may have ten fragments, so that slow machines, too, must send more than that.
    let spacing = Duration::from_millis(5);
    let slow = |framing| Terms { delay_bound: None, ..spaced(framing, spacing, QUANTUM) };
    let mut clients = [(0, Framing::Datagram), (1, Framing::Fragments)]
        .map(|(id, framing)| rig.open(id, slow(framing), 1_024));
    let mut sent_datagrams = [0_u64; 2];
    let early = |rig: &Rig, client: &Client| rig.account(client).datagrams.early;
    rig.until(|rig| {
        for (client, sent) in clients.iter_mut().zip(&mut sent_datagrams) {
            client.take();
            for _ in 0..20 {
                match client.id {
                    0 => client.send(b"x"),
                    _ => client.send_in_fragments(*sent, 8),
                }
                *sent += 1;
            }
        }
        clients.iter().all(|client| early(rig, client) > 500)
    });
    for (at, client) in clients.iter_mut().enumerate() {
        rig.until(|rig| {
            client.take();
            let datagrams = rig.account(client).datagrams;
            datagrams.arrived + datagrams.early + datagrams.socket == sent_datagrams[at]
        });
        // It is quiet, so nothing is discarded any more.
        rig.until(|rig| !rig.receiver.get(client.id).expect("open").early.is_filtered());
        let before = early(&rig, client);
        for message in 0..5 {
            let number = sent_datagrams[at] + message;
            match at {
                0 => client.send(b"x"),
                _ => client.send_in_fragments(number, 8),
            }
            clock::sleep(spacing);
            rig.turn();
        }
        let all = sent_datagrams[at] + 5;
        rig.until(|rig| {
            let datagrams = rig.account(client).datagrams;
            datagrams.arrived + datagrams.early + datagrams.socket == all
        });
        let account = rig.account(client);
        assert_eq!(early(&rig, client), before, "{account:?}");
        if at == 0 {
            assert_eq!(account.received + account.losses.total(), all, "{account:?}");
        }
        client.take();
    }
}

/// Checks that datagrams without room in the ring of best effort wait in the socket, and come when
/// there is room.
#[test]
fn best_effort_waits_for_its_client_and_does_not_wake_the_thread() {
    let mut rig = Rig::new();
    for framing in [Framing::Datagram, Framing::Fragments] {
        let mut client = rig.open(1, terms(framing, None), 8);
        let send = |client: &Client, message| match framing {
            Framing::Datagram => client.send(&content(message, 50)),
            Framing::Fragments => client.send_in_fragments(message, 50),
        };
        (0..8).for_each(|message| send(&client, message));
        rig.settle(&client, 8);
        (8..24).for_each(|message| send(&client, message));
        rig.until(|rig| rig.turn().is_some() && rig.receiver.get(1).expect("open").paused);
        // It is looked at when it is time, and not before, whatever comes.
        send(&client, 24);
        assert!(!rig.receiver.wait(clock::now() + Duration::from_micros(10), clock::now));
        let mut got = Vec::new();
        rig.until(|_| {
            got.extend(client.take());
            got.len() == 25
        });
        assert!(got.iter().enumerate().all(|(at, got)| got.0 == content(at as u64, 50)));
        assert_eq!(rig.account(&client).losses.total(), 0);
        rig.receiver.close(clock::now(), 1).expect("open");
    }
}
