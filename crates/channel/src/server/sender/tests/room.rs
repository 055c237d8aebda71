//! Tests clients that wait for room.

use super::*;
use crate::server::ringer::Notifier;

/// Runs a client that writes whenever there is room and sleeps in between. Returns how often it is
/// woken.
fn wakes_of_a_tight_writer(spacing: u64, messages: u64) -> u64 {
    let mut sender = sender(1, no_fault);
    let (mut client, channel) =
        Client::new(terms(spacing, 1, 1_000_000_000, TooEarly::Wait), Framing::Fragments);
    // Some time after the beginning of time, as on a running machine.
    let now = Cell::new(1_000_000_000);
    let mut channel = channel;
    channel.opening.bell = Notifier::without_a_thread();
    sender.open(ns(now.get()), 0, channel).expect("room");
    let is_rung = |sender: &Sender<_>| {
        let channel: &Option<Box<Channel>> = &sender.channels[0];
        channel.as_ref().is_some_and(|channel| channel.opening.bell.was_rung())
    };
    let (mut woken, mut sent) = (0, 0);
    let end = now.get() + messages * spacing;
    loop {
        while let Ok(Some(slot)) = client.puts.claim() {
            slot.push(50, HONEST);
            if client.puts.publish() == Wake::Ring {
                sender.look(ns(now.get()), 0);
            }
        }
        assert_eq!(client.puts.rest(), Ok(Rest::Sleep));
        while !is_rung(&sender) {
            assert!(client.puts.unreleased().expect("honest") > 0, "asleep beside an empty queue");
            let Turn::At(at) = sender.turn(ns(now.get()), || ns(now.get())) else { continue };
            now.set(at.as_nanos());
            sent += 1;
        }
        client.puts.rise();
        woken += 1;
        if now.get() >= end {
            assert!(sent >= messages - 1, "its queue was never empty: {sent}");
            return woken;
        }
    }
}

#[test]
fn a_client_without_room_is_woken_for_a_part_of_the_queue_or_once_a_millisecond() {
    // Two of eight slots at a time.
    let woken = wakes_of_a_tight_writer(1_000, 2_000);
    assert!((990..=1_010).contains(&woken), "{woken}");
    // Each slot, if they come slowly.
    let woken = wakes_of_a_tight_writer(2_000_000, 100);
    assert!((99..=101).contains(&woken), "{woken}");
}
