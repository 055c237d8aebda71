//! Tests the way from the ring to the link, with its obstacles.

use super::*;

#[test]
fn a_message_goes_from_the_ring_to_the_link_in_pieces_and_its_slot_comes_back() {
    let mut sender = sender(1, no_fault);
    let contract = terms(1_000, 2, 900, TooEarly::Wait);
    let (mut client, channel) = Client::new(contract, Framing::Fragments);
    sender.open(ns(5), 0, channel).expect("room");
    assert_eq!(sender.turn(ns(5), || ns(5)), Turn::Idle);
    // The client sleeps, so it is to be woken; and only once.
    assert_eq!((client.put(250), client.put(10)), (Wake::Ring, Wake::Nobody));
    sender.look(ns(10), 0);
    let now = Cell::new(10);
    run(&mut sender, &now, 100_000);
    let log = &sender.transport.inner().far_end().0;
    // Each packet has 32 bytes before it: the device counts those, unlike the calculated link.
    let bytes: Vec<_> = log.iter().map(|(_, channel, bytes)| (*channel, *bytes)).collect();
    assert_eq!(bytes, [(0, 132), (0, 132), (0, 82), (0, 42)]);
    // The second counts as arrived a spacing after the first.
    assert_eq!(log[3].0, 1_010 + 42);
    let account = client.account();
    assert_eq!((account.offered, account.taken, account.sent, account.sent_bytes), (2, 2, 2, 260));
    assert_eq!(account.verdict(ns(5_000)), Verdict::Kept);
    assert_eq!(client.puts.unreleased(), Ok(0));
}

#[test]
fn messages_that_the_link_does_not_take_wait_or_are_counted_as_lost() {
    // The link is down from 1,000 to 2,000.
    let script: Script = |now| match now.as_nanos() {
        1_000..2_000 => Fault::Refuse(NotTaken::Unreachable),
        3_000..4_000 => Fault::Refuse(NotTaken::WouldBlock { until: Some(ns(4_000)) }),
        _ => Fault::None,
    };
    let mut sender = sender(1, script);
    let (mut client, channel) =
        Client::new(terms(1_000, 1, 700, TooEarly::Wait), Framing::Fragments);
    sender.open(ns(0), 0, channel).expect("room");
    let now = Cell::new(0);
    for at in [100, 1_100, 2_100, 3_100, 4_100] {
        now.set(now.get().max(at));
        let _ = client.put(50);
        sender.look(ns(now.get()), 0);
        run(&mut sender, &now, at + 950);
    }
    run(&mut sender, &now, 10_000);
    let account = client.account();
    assert_eq!((account.taken, account.sent, account.losses.unreachable), (5, 4, 1));
    assert_eq!(account.late, 1, "the one that had to wait: {account:?}");
}

#[test]
fn a_client_that_is_gone_has_its_messages_sent_and_one_that_cheats_is_ended() {
    let mut sender = sender(3, no_fault);
    let contract = terms(1_000, 1, 900, TooEarly::Wait);
    let (mut gone, channel) = Client::new(contract, Framing::Fragments);
    sender.open(ns(0), 0, channel).expect("room");
    let (rings, channel) = Client::new(contract, Framing::Fragments);
    sender.open(ns(0), 1, channel).expect("room");
    let (mut corrupt, channel) = Client::new(contract, Framing::Fragments);
    sender.open(ns(0), 2, channel).expect("room");
    let _ = (gone.put(100), gone.put(100));
    sender.look(ns(1), 0);
    sender.finish(ns(1), 0);
    for _ in 0..=MOST_VAIN {
        assert!(sender.ended().is_none());
        sender.look(ns(2), 1);
    }
    assert_eq!(sender.ended(), Some((1, Ended::RingsInVain)));
    // A message longer than its slot, which no honest producer can push.
    let _ = corrupt.put(1_000);
    let descriptor = 4096 / 8;
    let slot = corrupt.puts.claim().expect("sound").expect("room");
    slot.memory().words()[descriptor].store(1_001, std::sync::atomic::Ordering::Relaxed);
    sender.look(ns(3), 2);
    assert!(matches!(sender.ended(), Some((2, Ended::Corrupt(Corrupt::Length { .. })))));
    let now = Cell::new(3);
    run(&mut sender, &now, 10_000);
    assert_eq!(sender.ended(), Some((0, Ended::ClientGone)));
    assert_eq!((gone.account().sent, rings.account().offered), (2, 0));
    for key in 0..3 {
        assert!(sender.close(key).is_some() && sender.close(key).is_none());
    }
    // The bells are closed with the channels.
    assert_eq!(rings.bell.wait(Instant::MAX), Ok(WaitOutcome::Closed));
}

/// Takes one packet of each block, and then reports that the link is down; takes no packet that is
/// alone.
struct OneOf(Vec<(u64, usize)>);

impl Transport for OneOf {
    type To = u32;

    fn hand_over(&mut self, now: Instant, _: u32, packets: &[Packet<'_>]) -> HandedOver {
        let stopped = Some(NotTaken::Unreachable);
        if packets.len() < 2 {
            return HandedOver { packets: 0, stopped };
        }
        self.0.push((now.as_nanos(), packets[0].len()));
        HandedOver { packets: 1, stopped }
    }
}

/// Checks that a taken part of a message is on the link for its time, although the rest is lost.
#[test]
fn the_taken_part_of_a_lost_message_keeps_the_link_busy() {
    let (link, cut) = link();
    let egress = EgressScheduler::new(link, cut, ServiceOrder::Deadline, 1);
    let mut sender = Sender::new(egress, cut, 1, OneOf(Vec::new()));
    let (mut client, channel) =
        Client::new(terms(1_000, 1, 900, TooEarly::Wait), Framing::Fragments);
    sender.open(ns(0), 0, channel).expect("room");
    let _ = client.put(200);
    sender.look(ns(50), 0);
    let now = Cell::new(50);
    run(&mut sender, &now, 10_000);
    assert_eq!(sender.transport.0, [(50, 132)]);
    // Until the first packet had left by the calculated link, the second was not tried.
    assert_eq!(now.get(), 150);
    let account = client.account();
    assert_eq!((account.sent, account.losses.unreachable), (0, 1));
}

#[test]
fn a_channel_that_is_closed_says_until_when_its_last_message_counts() {
    let mut sender = sender(2, no_fault);
    let promised = terms(1_000, 2, 900, TooEarly::Wait);
    let best_effort = Terms { promise: Promise::BestEffort, ..promised };
    let cases = [(0, 0, 0), (1, 1, 1_010), (1, 2, 2_010)];
    for ((key, messages, spent), contract) in
        cases.into_iter().flat_map(|case| [(case, promised), (case, best_effort)])
    {
        let (mut client, channel) = Client::new(contract, Framing::Fragments);
        sender.open(ns(5), key, channel).expect("room");
        let now = Cell::new(10);
        for _ in 0..messages {
            if client.put(50) == Wake::Ring {
                sender.look(ns(10), key);
            }
        }
        run(&mut sender, &now, 5_000);
        assert_eq!(sender.close(key).expect("open").spent_until(), ns(spent));
    }
}
