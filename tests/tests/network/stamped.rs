//! Timestamps of datagrams are on the clock that everything else uses.

use punctual_linux::clock;
use punctual_linux::net::{Notice, StampPlace, Stamps, WallOffset};
use system_tests::live::eventually;

use crate::pair::for_each_family;

#[test]
fn a_datagram_is_stamped_where_it_is_queued_sent_and_received() {
    for_each_family(|mut pair, _| {
        pair.receiver.set_stamps(Stamps { receive: true, ..Stamps::default() }).expect("set");
        // They are enabled in the background: the first datagrams may have none.
        assert!(eventually(|| {
            pair.send(&[0]);
            pair.receive(1);
            pair.inbox.arrivals()[0].stamp.is_some()
        }));
        pair.sender
            .set_stamps(Stamps { queued: true, sent: true, ..Stamps::default() })
            .expect("set");
        for number in 0..20 {
            let offset = WallOffset::measure();
            let before = clock::now();
            pair.send(&[7]);
            pair.receive(1);
            let after = clock::now();
            let stamp = pair.inbox.arrivals()[0].stamp.expect("asked for");
            let mut stamps = [None; 2];
            for _ in 0..2 {
                let Notice::Sent(sent) = pair.notice() else { panic!("only stamps") };
                assert_eq!(sent.number, number);
                stamps[usize::from(sent.place == StampPlace::Sent)] = Some(sent.at);
            }
            let [Some(queued), Some(sent)] = stamps else { panic!("{stamps:?}") };
            if !offset.holds(&WallOffset::measure()) {
                println!("the clock of this host was set; once more");
                continue;
            }
            assert!(queued <= sent && sent <= stamp, "{queued:?} {sent:?} {stamp:?}");
            let error = offset.error();
            let [first, last] =
                [queued, stamp].map(|stamp| offset.monotonic(stamp).expect("after boot"));
            assert!(first.saturating_add(error) >= before, "{first:?} before {before:?}");
            assert!(last <= after.saturating_add(error), "{last:?} after {after:?}");
        }
    });
}

#[test]
fn the_traffic_class_arrives() {
    for_each_family(|mut pair, _| {
        pair.receiver.tell_traffic_class(true).expect("told");
        for class in [0xb8, 0x28, 0] {
            pair.sender.set_traffic_class(class).expect("set");
            pair.send(&[1]);
            pair.receive(1);
            assert_eq!(pair.inbox.arrivals()[0].traffic_class, Some(class));
        }
    });
}
