//! Every discarded datagram is counted, and a filter discards exactly what it specifies.

use punctual_linux::net::filter::{Filter, Flow, PayloadByte, Verdict};
use punctual_linux::net::{Outgoing, Place, Setup, UdpSocket};
use system_tests::live::eventually;
use system_tests::network::lower;

use crate::pair::{Pair, for_each_family};

#[test]
fn every_datagram_is_received_or_counted() {
    const SENT: u32 = 2_000;
    for_each_family(|mut pair, _| {
        pair.receiver.tell_drops(true).expect("told");
        let given = pair.receiver.set_receive_buffer(20_000).expect("set");
        assert!((20_000..40_000).contains(&given), "{given}");
        for _ in 0..SENT {
            pair.send(&[0; 100]);
        }
        let mut received = 0;
        let mut told = 0;
        let all = eventually(|| {
            received += pair.receiver.receive(&mut pair.inbox).expect("received") as u32;
            received + pair.receiver.drops().expect("Linux 4.12") == SENT
        });
        let dropped = pair.receiver.drops().expect("Linux 4.12");
        assert!(all, "{received} received and {dropped} dropped");
        assert!(dropped > 0, "the buffer holds them all");
        // The next arrival reports the same count.
        pair.send(&[1]);
        assert!(eventually(|| {
            pair.receiver.receive(&mut pair.inbox).expect("received");
            told = pair.inbox.arrivals().first().map_or(told, |first| first.drops.unwrap_or(0));
            !pair.inbox.arrivals().is_empty()
        }));
        assert_eq!(told, dropped);
    });
}

/// Sends `count` datagrams that begin with `byte`, from the pair's node.
fn flood(pair: &Pair, from: &UdpSocket, byte: u8, count: u32) {
    let to = pair.receiver.local_address().expect("bound");
    let bytes = [byte];
    for _ in 0..count {
        let parts = [Place::of(&bytes)];
        from.send(&Outgoing::new(&parts).to(to)).expect("sent");
    }
}

#[test]
fn a_filter_discards_what_it_says_and_counts_it() {
    for_each_family(|mut pair, v6| {
        let open = || UdpSocket::open(&Setup::at(lower(0).port(v6, 0))).expect("opens");
        let (kept, other) = pair.network.node(0).run(|| (open(), open()));
        let address = Some(lower(0).address(v6));
        let port = Some(kept.local_address().expect("bound").port());
        let marked = Some(PayloadByte { at: 0, mask: 0xf0, value: 0x50 });
        let filter = Filter::new(Verdict::Drop)
            .rule(Flow { byte: marked, ..Flow::default() }, Verdict::Drop)
            .rule(Flow { address, port, byte: None }, Verdict::Keep);
        let program = filter.compile(v6).expect("can match");
        pair.receiver.attach(&program).expect("attached");
        flood(&pair, &other, 1, 30);
        flood(&pair, &kept, 0x57, 20);
        flood(&pair, &kept, 2, 10);
        assert_eq!(pair.receive(10), vec![vec![2]; 10]);
        assert!(eventually(|| pair.receiver.drops() == Ok(50)), "{:?}", pair.receiver.drops());
        pair.receiver.detach().expect("detached");
        pair.receiver.detach().expect("detached twice");
        flood(&pair, &other, 3, 5);
        assert_eq!(pair.receive(5), vec![vec![3]; 5]);
    });
}

#[test]
fn a_part_is_kept_at_random() {
    const SENT: u32 = 2_000;
    for_each_family(|mut pair, v6| {
        let quarter = Verdict::KeepPart(1 << 30);
        let program = Filter::new(quarter).compile(v6).expect("can match");
        pair.receiver.attach(&program).expect("attached");
        pair.receiver.set_receive_buffer(4 << 20).expect("set");
        let mut kept = 0;
        for _ in 0..20 {
            let sender = &pair.sender;
            for _ in 0..SENT / 20 {
                sender.send(&Outgoing::new(&[Place::of(&[0])])).expect("sent");
            }
            kept += pair.receiver.receive(&mut pair.inbox).expect("received") as u32;
        }
        assert!(eventually(|| {
            kept += pair.receiver.receive(&mut pair.inbox).expect("received") as u32;
            kept + pair.receiver.drops().expect("Linux 4.12") == SENT
        }));
        // 500 are expected; ten standard deviations are 194.
        assert!((306..=694).contains(&kept), "{kept} of {SENT}");
    });
}
