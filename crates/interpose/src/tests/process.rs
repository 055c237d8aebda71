use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use punctual_channel::client::Slot;
use punctual_linux::clock;
use punctual_model::{Duration, Instant};

use super::*;
use crate::process::Sent;

fn to() -> SocketAddr {
    "192.0.2.7:4000".parse().expect("an address")
}

fn send(process: &Process, bytes: &[u8], patience: Option<Instant>) -> Sent {
    process.send(bytes.len(), &mut |slot: &mut Slot<'_>| slot.write(0, bytes), &|| patience)
}

#[test]
fn the_first_destination_is_where_the_channel_leads() {
    let (process, _) = process(None, false);
    let names: SocketAddr = "192.0.2.1:53".parse().expect("an address");
    assert!(!process.leads(names), "not worth a channel");
    assert!(process.leads(to()) && process.leads(to()));
    assert!(!process.leads("192.0.2.7:4001".parse().expect("an address")));
}

#[test]
fn a_requested_destination_is_the_only_one() {
    let mapped = "[::ffff:192.0.2.7]:4000".parse().expect("an address");
    let (process, _) = process(Some(mapped), false);
    assert!(!process.leads("192.0.2.8:4000".parse().expect("an address")));
    assert!(process.leads(to()));
}

#[test]
fn datagrams_go_into_the_channel_in_order() {
    let (process, handed) = process(Some(to()), false);
    assert_eq!(process.descriptors().count(), 0, "opened with the first datagram");
    assert_eq!(send(&process, b"one", None), Sent::InChannel);
    let mut server = handed.server();
    assert_eq!(process.descriptors().count(), 1, "the bell");
    assert_eq!(send(&process, b"two", None), Sent::InChannel);
    assert_eq!((server.next(), server.next()), (Some(b"one".to_vec()), Some(b"two".to_vec())));
    assert!(handed.pop().is_none(), "one channel");
}

#[test]
fn a_datagram_beyond_the_requested_size_bypasses_the_channel() {
    let (process, _) = process(Some(to()), false);
    for (bytes, good) in [(0, false), (1, true), (100, true), (101, false)] {
        assert_eq!(process.is_of_a_good_size(bytes), good, "{bytes}");
    }
}

#[test]
fn a_refusal_is_for_good() {
    let (process, _) = process(Some(to()), true);
    assert_eq!(send(&process, b"one", None), Sent::Plain);
    assert_eq!(send(&process, b"two", None), Sent::Plain);
    assert_eq!(process.descriptors().count(), 0);
}

#[test]
fn without_room_a_call_waits_if_it_may_and_fails_if_not() {
    let (process, handed) = process(Some(to()), false);
    for n in 0..4 {
        assert_eq!(send(&process, &[n], None), Sent::InChannel);
    }
    let mut server = handed.server();
    assert_eq!(send(&process, b"no", None), Sent::NoRoom);
    let until = clock::now() + Duration::from_millis(12);
    assert_eq!(send(&process, b"no", Some(until)), Sent::NoRoom);
    assert!(clock::now() >= until);
    let asked = AtomicU64::new(0);
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            process.send(1, &mut |slot: &mut Slot<'_>| slot.write(0, b"w"), &|| {
                asked.fetch_add(1, Ordering::Relaxed);
                Some(Instant::MAX)
            })
        });
        while asked.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        // While the other thread waits.
        for _ in 0..20 {
            assert_eq!(send(&process, b"no", None), Sent::NoRoom);
        }
        assert_eq!(server.next(), Some(vec![0]));
        assert_eq!(waits.join().expect("no panic"), Sent::InChannel);
    });
    assert_eq!(asked.into_inner(), 1, "asked once for a call");
    let left: Vec<_> = std::iter::from_fn(|| server.next()).flatten().collect();
    assert_eq!(left, [1, 2, 3, b'w']);
}

#[test]
fn patience_is_not_asked_for_if_there_is_room() {
    let (process, _handed) = process(Some(to()), false);
    let asked = Cell::new(false);
    let sent = process.send(1, &mut |slot: &mut Slot<'_>| slot.write(0, b"w"), &|| {
        asked.set(true);
        None
    });
    assert_eq!((sent, asked.get()), (Sent::InChannel, false));
}

#[test]
fn after_a_servers_end_the_next_one_gets_the_rest_of_the_queue() {
    let (process, handed) = process(Some(to()), false);
    for n in 0..4 {
        assert_eq!(send(&process, &[n], None), Sent::InChannel);
    }
    drop(handed.server());
    // The end is noticed when there is no room, and the next server is there at once.
    assert_eq!(send(&process, b"no", None), Sent::NoRoom);
    let mut server = handed.server();
    assert_eq!(server.next(), Some(vec![0]));
    assert_eq!(send(&process, &[4], None), Sent::InChannel);
    drop(server);
    // If that one ends at once, the next is not looked for within a second, nor in the same call.
    assert_eq!(send(&process, &[5], None), Sent::Plain);
    assert_eq!(send(&process, &[6], Some(Instant::MAX)), Sent::Plain);
}
