//! Tests channels that are policed by interval credits.

use punctual_model::channel::{Policing, Sensitivity};

use super::*;

/// Creates a channel with a spacing of a microsecond and the burst that the credits need.
fn credited(too_early: TooEarly, sensitivity: Sensitivity) -> (Client, Box<Channel>) {
    let declared = terms(1_000, 1, 900, too_early);
    let covering = Policing::Credits(sensitivity).covering(declared.arrivals).expect("valid");
    let (client, channel) =
        Client::with_slots(64, Terms { arrivals: covering, ..declared }, Framing::Datagram);
    (client, channel.with_credits(ns(0), sensitivity))
}

/// Puts in messages until the ring is full, or `most`.
fn fill(sender: &mut Sender<impl Transport<To = u32>>, client: &mut Client, at: u64, most: u32) {
    for _ in 0..most {
        let Ok(Some(slot)) = client.puts.claim() else { return };
        slot.push(50, HONEST);
        if client.puts.publish() == Wake::Ring {
            sender.look(ns(at), 0);
        }
    }
}

/// Checks that a writer in a tight loop gets its rate, message by message: exactly that of a
/// channel without credits that waits as well.
#[test]
fn a_waiting_channel_leaves_at_the_same_instants_as_without_credits() {
    let mut seen = Vec::new();
    for credits in [None, Some(Sensitivity::Sensitive), Some(Sensitivity::Usual)] {
        let mut sender = sender(1, no_fault);
        let (mut client, channel) = match credits {
            Some(sensitivity) => credited(TooEarly::Wait, sensitivity),
            None => {
                let mut small =
                    Client::with_slots(64, terms(1_000, 1, 900, TooEarly::Wait), Framing::Datagram);
                small.1.opening.terms.arrivals =
                    LinearBounded::new(1, 100, Duration::from_micros(1), 1).expect("valid");
                small
            }
        };
        let channel = shortened(channel);
        sender.open(ns(0), 0, channel).expect("room");
        let now = Cell::new(0);
        for at in (0..200_000).step_by(300) {
            now.set(now.get().max(at));
            // It rests now and then; credits are not saved meanwhile.
            if at / 20_000 % 3 != 1 {
                fill(&mut sender, &mut client, now.get(), 8);
            }
            run(&mut sender, &now, at);
        }
        let account = client.account();
        assert_eq!(account.losses.total(), 0);
        assert!(account.not_conforming > 0, "{credits:?}: {account:?}");
        seen.push(sender.transport.inner().far_end().0.clone());
    }
    assert!(seen[0].len() > 100 && seen.iter().all(|log| *log == seen[0]));
}

/// Shortens the messages to a packet, so that each can be a datagram.
fn shortened(mut channel: Box<Channel>) -> Box<Channel> {
    let arrivals = channel.opening.terms.arrivals;
    let spacing = arrivals.min_inter_arrival();
    channel.opening.terms.arrivals =
        LinearBounded::new(1, 100, spacing, arrivals.max_burst()).expect("valid");
    channel
}

/// Checks that each interval passes as many messages as it has credits, the first ones, whatever
/// else is offered.
#[test]
fn a_losing_channel_sends_the_credits_of_each_interval() {
    for sensitivity in [Sensitivity::Sensitive, Sensitivity::Usual] {
        let mut sender = sender(1, no_fault);
        let (mut client, channel) = credited(TooEarly::Discard, sensitivity);
        sender.open(ns(0), 0, shortened(channel)).expect("room");
        let now = Cell::new(0);
        let interval = u64::from(sensitivity.pdus()) * 1_000;
        let intervals = 20;
        for at in (0..intervals * interval).step_by(100) {
            now.set(now.get().max(at));
            fill(&mut sender, &mut client, now.get(), 8);
            run(&mut sender, &now, at);
        }
        run(&mut sender, &now, 1_000_000);
        let account = client.account();
        // Those in the ring at the end are sent in one interval more.
        assert_eq!(account.sent, (intervals + 1) * u64::from(sensitivity.pdus()), "{account:?}");
        assert!(account.losses.too_early > account.sent, "{account:?}");
        assert_eq!(account.offered, account.sent + account.losses.too_early);
        assert_eq!(account.verdict(ns(2_000_000)), Verdict::Kept, "its own fault");
        // Spaced as declared, although an interval's messages came at once.
        let left = &sender.transport.inner().far_end().0;
        assert!(left.windows(2).all(|two| two[1].0 - two[0].0 >= 1_000), "{left:?}");
    }
}

/// Checks that the burst that credits allow at the border of two intervals is lost by neither
/// policer.
#[test]
fn messages_within_credits_conform_to_the_covering_burst() {
    let mut sender = sender(1, no_fault);
    let (mut client, channel) = credited(TooEarly::Discard, Sensitivity::Sensitive);
    sender.open(ns(0), 0, shortened(channel)).expect("room");
    let now = Cell::new(0);
    for interval in 0..50 {
        // Two just before each second border, and two just after it.
        for at in [(2 * interval + 1) * 2_000 - 1, (2 * interval + 1) * 2_000] {
            now.set(now.get().max(at));
            fill(&mut sender, &mut client, at, 2);
            run(&mut sender, &now, at);
        }
        run(&mut sender, &now, (2 * interval + 2) * 2_000 + 1_000);
    }
    run(&mut sender, &now, 1_000_000);
    let account = client.account();
    assert_eq!(
        (account.sent, account.losses.total(), account.not_conforming),
        (200, 0, 0),
        "{account:?}"
    );
    assert_eq!(account.verdict(ns(2_000_000)), Verdict::Kept);
}

#[test]
fn a_changed_spacing_is_that_of_the_credits() {
    let mut sender = sender(1, no_fault);
    let (mut client, channel) = credited(TooEarly::Discard, Sensitivity::Sensitive);
    sender.open(ns(0), 0, shortened(channel)).expect("room");
    let slower = LinearBounded::new(1, 100, Duration::from_micros(10), 4).expect("valid");
    let slower = Terms { arrivals: slower, ..terms(1, 1, 900, TooEarly::Discard) };
    assert!(sender.change(0, slower));
    let now = Cell::new(0);
    for at in (0..200_000).step_by(500) {
        now.set(now.get().max(at));
        fill(&mut sender, &mut client, now.get(), 8);
        run(&mut sender, &now, at);
    }
    run(&mut sender, &now, 1_000_000);
    // Ten intervals of two, and the messages in the ring.
    assert_eq!(client.account().sent, 22);
}
