//! Tests the accounts of a server that did not look, and of clients that lie about when they
//! published.

use super::*;
use crate::account::{Broken, Unknown};

const SECOND: u64 = 1_000_000_000;

/// Returns terms of a message each millisecond, with a bound of half of one.
fn each_millisecond() -> Terms {
    terms(1_000_000, 1, 500_000, TooEarly::Wait)
}

/// Publishes a message with the reported time `says`; the bell is noticed at `heard`.
fn publish(
    sender: &mut Sender<Faulty<NullDevice<Log>, Script>>,
    client: &mut Client,
    (says, heard): (u64, u64),
) {
    client.puts.claim().expect("sound").expect("room").push(100, says);
    if client.puts.publish() == Wake::Ring {
        sender.look(ns(heard), 0);
    }
}

#[test]
fn a_sender_that_stood_still_is_found_late_by_as_long() {
    for stall in [0, 2 * SECOND] {
        let mut sender = sender(1, no_fault);
        let (mut client, channel) = Client::new(each_millisecond(), Framing::Fragments);
        sender.open(ns(0), 0, channel).expect("room");
        let now = Cell::new(0);
        for n in 1..=10 {
            let at = n * 1_000_000;
            now.set(at);
            publish(&mut sender, &mut client, (at, at));
            run(&mut sender, &now, at + 900_000);
        }
        // The next one is published, and the server does not look.
        let at = 11_000_000;
        now.set(at + stall);
        publish(&mut sender, &mut client, (at, at + stall));
        run(&mut sender, &now, at + stall + 900_000);
        let (account, now) = (client.account(), ns(now.get()));
        assert_eq!((account.sent, account.not_conforming), (11, 0));
        if stall == 0 {
            assert_eq!(account.verdict(now), Verdict::Kept);
            continue;
        }
        // A hundred bytes take 100 ns of the link.
        let tardiness = Duration::from_nanos(stall + 100 - 500_000);
        let late = Broken::Late { messages: 1, of: 11, tardiness };
        assert_eq!(account.verdict(now), Verdict::Broken(late));
    }
}

/// Checks that the backlog of a stall leaves by the contract, and that each message is judged by
/// when it was published.
#[test]
fn each_message_of_a_backlog_is_late_by_its_own_time() {
    let mut sender = sender(1, no_fault);
    let (mut client, channel) = Client::new(each_millisecond(), Framing::Fragments);
    sender.open(ns(0), 0, channel).expect("room");
    let looked = 100_000_000;
    for n in 1..=5 {
        publish(&mut sender, &mut client, (n * 1_000_000, looked));
    }
    let now = Cell::new(looked);
    run(&mut sender, &now, 2 * looked);
    let account = client.account();
    // The first was looked at 99 ms after it was published, and those behind it wait for their
    // turn.
    assert_eq!((account.sent, account.late), (5, 5));
    let worst = 99_000_000 + 100 - 500_000;
    assert_eq!(account.worst_lateness_nanos, Some(worst));
}

#[test]
fn a_lie_about_publication_changes_only_the_own_verdict() {
    let leave_at = |says: u64| {
        let mut sender = sender(2, no_fault);
        let (mut liar, channel) = Client::new(each_millisecond(), Framing::Fragments);
        sender.open(ns(0), 0, channel).expect("room");
        let (mut other, channel) = Client::new(each_millisecond(), Framing::Fragments);
        sender.open(ns(0), 1, channel).expect("room");
        let now = Cell::new(0);
        for n in 1..=20 {
            now.set(n * 1_000_000);
            publish(&mut sender, &mut liar, (says, now.get()));
            other.puts.claim().expect("sound").expect("room").push(90, now.get());
            let _ = other.puts.publish();
            sender.look(ns(now.get()), 1);
            run(&mut sender, &now, n * 1_000_000 + 900_000);
        }
        let log = sender.transport.inner().far_end().0.clone();
        (log, liar.account().verdict(ns(now.get())), other.account().verdict(ns(now.get())))
    };
    let (honest, kept, others) = leave_at(HONEST);
    assert_eq!((kept, others), (Verdict::Kept, Verdict::Kept));
    let (same, broken, others) = leave_at(0);
    assert_eq!((same, others), (honest, Verdict::Kept), "nothing leaves at another time");
    assert!(matches!(broken, Verdict::Broken(Broken::Late { .. })), "{broken}");
}

/// Checks that messages in the ring when a server begins are scheduled by when they were seen, and
/// judged by when they were published: the time without a server shows.
#[test]
fn messages_that_waited_for_a_server_are_late_but_not_more_urgent() {
    let mut sender = sender(1, no_fault);
    let (mut client, channel) = Client::new(each_millisecond(), Framing::Fragments);
    let mut channel = channel;
    let granted = ns(10 * SECOND);
    (channel.looked, channel.absent) = (granted, granted);
    for says in [1, 10 * SECOND + 1, 10 * SECOND + 2] {
        client.puts.claim().expect("sound").expect("room").push(100, says);
    }
    let _ = client.puts.publish();
    // This is as if they had been there when the server attached.
    channel.opening.takes.refresh().expect("honest");
    assert_eq!(channel.opening.takes.known(), 3);
    let opened = 13 * SECOND;
    sender.open(ns(opened), 0, channel).expect("room");
    let now = Cell::new(opened);
    run(&mut sender, &now, 20 * SECOND);
    let left: Vec<_> = sender.transport.inner().far_end().0.iter().map(|(at, ..)| *at).collect();
    // Each has 32 bytes before it. They do not leave at once, as if they had all counted as arrived
    // long ago.
    assert_eq!(left, [0, 1_000_000, 2_000_000].map(|after| opened + after + 132));
    let account = client.account();
    assert_eq!(account.late, 3);
    // The first counts as no older than the grant.
    assert_eq!(account.worst_delay.as_nanos(), 3 * SECOND);
}

#[test]
fn a_channel_that_was_not_looked_at_is_not_called_kept() {
    let mut sender = sender(1, no_fault);
    let (client, channel) = Client::new(each_millisecond(), Framing::Fragments);
    sender.open(ns(0), 0, channel).expect("room");
    let unheard = Duration::from_secs(2);
    let verdict = client.account().verdict_unheard(ns(2 * SECOND), unheard);
    assert_eq!(verdict, Verdict::NotJudgeable(Unknown::NotLooked { since: unheard }));
}
