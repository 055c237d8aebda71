//! Tests senders that keep to their contracts, and others.

use super::*;

#[test]
fn a_channel_that_loses_early_messages_passes_one_a_spacing() {
    let mut sender = sender(1, no_fault);
    let (mut client, channel) =
        Client::new(terms(1_000, 1, 500, TooEarly::Discard), Framing::Datagram);
    let small = LinearBounded::new(1, 100, Duration::from_micros(1), 1).expect("valid");
    let mut channel = channel;
    channel.opening.terms.arrivals = small;
    sender.open(ns(0), 0, channel).expect("room");
    let now = Cell::new(0);
    for _ in 0..1_000 {
        while let Ok(Some(slot)) = client.puts.claim() {
            slot.push(50, HONEST);
            let _ = client.puts.publish();
        }
        sender.look(ns(now.get()), 0);
        run(&mut sender, &now, now.get() + 100);
        now.set(now.get() + 100);
    }
    let account = client.account();
    // One each microsecond.
    let most = now.get() / 1_000 + 1;
    assert!((most - 1..=most).contains(&account.sent), "{most}: {account:?}");
    assert!(account.losses.too_early > 100, "{account:?}");
    assert_eq!(account.offered, account.sent + account.losses.too_early);
    // Lost messages cost no look of their own: the channel rests only when none is early.
    assert!(sender.ended().is_none());
}

#[test]
fn messages_of_another_size_than_declared_are_lost_and_the_others_go() {
    let mut sender = sender(1, no_fault);
    let (mut client, channel) =
        Client::new(terms(10, 8, 5_000, TooEarly::Wait), Framing::Fragments);
    sender.open(ns(0), 0, channel).expect("room");
    for bytes in [0, 5, 0, 7] {
        let _ = client.put(bytes);
    }
    sender.look(ns(1), 0);
    let now = Cell::new(1);
    run(&mut sender, &now, 10_000);
    let account = client.account();
    assert_eq!((account.sent_bytes, account.losses.wrong_size), (12, 2));
    assert_eq!(account.verdict(ns(20_000)), Verdict::Kept, "its own fault");
}

/// Checks that the contract's messages are sent, however much more is written.
#[test]
fn a_writer_in_a_tight_loop_that_loses_gets_its_contract() {
    let mut sender = sender(1, no_fault);
    let (mut client, channel) =
        Client::new(terms(5_000, 3, 500, TooEarly::Discard), Framing::Fragments);
    sender.open(ns(0), 0, channel).expect("room");
    let now = Cell::new(0);
    for at in 0..10_000 {
        now.set(now.get().max(at * 100));
        while let Ok(Some(slot)) = client.puts.claim() {
            slot.push(50, HONEST);
            if client.puts.publish() == Wake::Ring {
                sender.look(ns(now.get()), 0);
            }
        }
        run(&mut sender, &now, at * 100);
    }
    let account = client.account();
    // A million nanoseconds, one each five thousand.
    assert!((198..=202).contains(&account.sent), "{account:?}");
    assert!(account.losses.too_early > 100, "{account:?}");
}

/// Checks a sender that keeps to its contract, with a delay bound above its spacing, behind another
/// whose message takes long: it falls behind, loses nothing, and catches up.
#[test]
fn a_conforming_sender_loses_nothing_while_a_message_waits() {
    for too_early in [TooEarly::Discard, TooEarly::Wait] {
        let mut sender = sender(2, no_fault);
        let long = Terms { promise: Promise::BestEffort, ..terms(1, 1, 1, TooEarly::Wait) };
        let (mut other, channel) = Client::new(long, Framing::Fragments);
        sender.open(ns(0), 0, channel).expect("room");
        let (mut client, channel) = Client::new(terms(100, 1, 500, too_early), Framing::Fragments);
        sender.open(ns(0), 1, channel).expect("room");
        let now = Cell::new(0);
        for n in 0..40 {
            let at = n * 100;
            run(&mut sender, &now, at);
            now.set(now.get().max(at));
            // Blocks of two packets take 200 ns of a link of which 50 in each 100 are wanted.
            if n % 8 == 0 {
                let _ = other.put(200);
                sender.look(ns(now.get()), 0);
            }
            if client.put(50) == Wake::Ring {
                sender.look(ns(now.get()), 1);
            }
        }
        run(&mut sender, &now, 10_000);
        let account = client.account();
        assert_eq!((account.sent, account.losses.total(), account.late), (40, 0, 0), "{account:?}");
    }
}
