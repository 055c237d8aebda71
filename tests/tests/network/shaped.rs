//! Queueing disciplines under a socket: they limit the rate of the link, and urgent classes go
//! first.

use punctual_linux::clock;
use punctual_linux::net::route::{self, Discipline, DisciplineError};
use punctual_linux::net::{Outgoing, Place, SendError};
use punctual_model::Duration;
use system_tests::live::eventually;
use system_tests::network::lower;

use crate::pair::{Pair, for_each_family};

/// In bytes a second: 1,000 datagrams of 1,000 bytes take about a second.
const RATE: u64 = 1_000_000;

/// Sets the discipline, or prints why not.
fn shaped(pair: &Pair, discipline: Discipline) -> bool {
    match pair.network.set_discipline(lower(0), discipline) {
        Ok(()) => true,
        Err(why @ DisciplineError::Unknown { .. }) => {
            println!("skipped: {why}");
            false
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_shaped_link_is_no_faster_than_its_rate() {
    let tbf = Discipline::Tbf { rate: RATE, burst_bytes: 2_000, limit_bytes: 1_000_000 };
    let htb = Discipline::Htb { rate: RATE, burst_bytes: 2_000 };
    for discipline in [tbf, htb] {
        for_each_family(|mut pair, _| {
            if !shaped(&pair, discipline) {
                return;
            }
            pair.sender.set_send_buffer(1 << 20).expect("set");
            let start = clock::now();
            for _ in 0..100 {
                pair.send(&[0; 958]);
            }
            pair.receive(100);
            let took = clock::now().saturating_since(start);
            // 100 packets of 1,000 bytes and more, less the two that may go at once. Reading the
            // clock late can only add to it.
            assert!(
                took >= Duration::from_millis(95),
                "{} let 98 kB pass in {took}",
                discipline.name()
            );
        });
    }
}

#[test]
fn a_full_queue_is_told() {
    let tbf = Discipline::Tbf { rate: 10_000, burst_bytes: 2_000, limit_bytes: 5_000 };
    for_each_family(|pair, _| {
        if !shaped(&pair, tbf) {
            return;
        }
        let parts = [Place::of(&[0; 1_000])];
        let full = (0..20).find_map(|_| pair.sender.send(&Outgoing::new(&parts)).err());
        assert_eq!(full, Some(SendError::QueueFull));
    });
}

#[test]
fn a_guaranteed_class_does_not_wait_behind_best_effort() {
    for_each_family(|mut pair, v6| {
        if !shaped(&pair, Discipline::Htb { rate: RATE / 10, burst_bytes: 2_000 }) {
            return;
        }
        let index = pair.network.interface(lower(0)).index;
        let class = || route::add_htb_class(index, 2, RATE, RATE, 10_000, 0);
        pair.network.node(0).run(class).expect("the root is an htb");
        // Nearly half a second's worth of best effort, and behind it five of the guaranteed class.
        for _ in 0..40 {
            pair.send(&[0; 958]);
        }
        pair.sender = {
            let to = punctual_linux::net::Setup::to(pair.receiver.local_address().expect("bound"));
            let open = || punctual_linux::net::UdpSocket::open(&to);
            pair.network.node(0).run(open).expect("opens")
        };
        pair.sender.set_priority(0x1_0002).expect("root may");
        for _ in 0..5 {
            pair.send(&[1; 958]);
        }
        let got = pair.receive(45);
        let last = got.iter().rposition(|payload| payload[0] == 1).expect("all came");
        assert!(last < 40, "the last guaranteed datagram came as number {last} of 45 (v6: {v6})");
    });
}

#[test]
fn a_discipline_that_is_not_there_is_named() {
    for_each_family(|pair, _| {
        let index = pair.network.interface(lower(0)).index;
        for discipline in [Discipline::Fq, Discipline::Etf { delta: 100_000 }] {
            match pair.network.set_discipline(lower(0), discipline) {
                Ok(()) => assert!(eventually(|| {
                    pair.network.node(0).run(|| route::remove_discipline(index)).is_ok()
                })),
                Err(DisciplineError::Unknown { name }) => assert_eq!(name, discipline.name()),
                Err(DisciplineError::Failed { name: "etf", .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        let none = pair.network.node(0).run(|| route::set_discipline(9_999, Discipline::Fq));
        let refused = matches!(
            none,
            Err(DisciplineError::NoInterface { index: 9_999 } | DisciplineError::Unknown { .. })
        );
        assert!(refused, "{none:?}");
    });
}
