//! Trains and batches arrive whole, in order and separately.

use std::num::NonZeroU16;

use punctual_linux::net::{
    Arrival, LARGEST_BATCH, LONGEST_TRAIN, Outgoing, Place, Room, SendError, Setup, UdpSocket,
};
use system_tests::live::eventually;
use system_tests::network::higher;

use crate::pair::for_each_family;

/// Returns `bytes` bytes, each of which encodes its position.
fn payload(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 7) as u8).collect()
}

fn segment(bytes: u16) -> NonZeroU16 {
    NonZeroU16::new(bytes).expect("not zero")
}

#[test]
fn a_train_arrives_as_datagrams_in_order() {
    for_each_family(|mut pair, _| {
        let payload = payload(20 * 1400 + 123);
        let parts = [Place::of(&payload[..999]), Place::of(&payload[999..])];
        pair.sender.send(&Outgoing::new(&parts).in_segments(segment(1400))).expect("sent");
        let got = pair.receive(21);
        assert_eq!(got, payload.chunks(1400).collect::<Vec<_>>());
    });
}

#[test]
fn trains_that_are_received_as_such_keep_their_borders() {
    for_each_family(|mut pair, _| {
        pair.receiver.set_receive_trains(true).expect("Linux 5.0");
        let payload = payload(10 * 1000 + 1);
        let parts = [Place::of(&payload)];
        pair.sender.send(&Outgoing::new(&parts).in_segments(segment(1000))).expect("sent");
        assert_eq!(pair.receive(11), payload.chunks(1000).collect::<Vec<_>>());
        let arrivals = pair.inbox.arrivals();
        assert_eq!(arrivals.len(), 1, "veth hands a train over whole: {arrivals:?}");
        assert_eq!((arrivals[0].segment, arrivals[0].datagrams()), (Some(1000), 11));
    });
}

#[test]
fn trains_that_no_kernel_takes_are_refused_with_numbers() {
    for_each_family(|pair, _| {
        let payload = payload(66_000);
        let train = |bytes: usize, of: u16| {
            let parts = [Place::of(&payload[..bytes])];
            pair.sender.send(&Outgoing::new(&parts).in_segments(segment(of)))
        };
        assert_eq!(train(LONGEST_TRAIN * 10, 10), Ok(()));
        let refused = SendError::TrainTooLong { segments: 65, bytes: 650 };
        assert_eq!(train(650, 10), Err(refused));
        let refused = SendError::TrainTooLong { segments: 47, bytes: 66_000 };
        assert_eq!(train(66_000, 1412), Err(refused));
        // A segment that does not fit the link is refused by the link.
        assert_eq!(train(3000, 1500), Err(SendError::TooLong { bytes: 1500, mtu: Some(1500) }));
    });
}

#[test]
fn a_batch_goes_to_each_of_its_receivers() {
    for_each_family(|mut pair, v6| {
        let end = higher(0);
        let other = crate::pair::bound(&pair.network, end, v6);
        let open = || UdpSocket::open(&Setup::at(system_tests::network::lower(0).port(v6, 0)));
        let sender = pair.network.node(0).run(open).expect("opens");
        let (one, two) = (pair.receiver.local_address(), other.local_address());
        let (one, two) = (one.expect("bound"), two.expect("bound"));
        let numbers: Vec<[u8; 1]> = (0..100).map(|n| [n]).collect();
        let parts: Vec<[Place<'_>; 1]> = numbers.iter().map(|n| [Place::of(n)]).collect();
        let batch: Vec<Outgoing<'_>> = (0..100)
            .map(|n| Outgoing::new(&parts[n]).to(if n % 3 == 0 { two } else { one }))
            .collect();
        assert_eq!(sender.send_batch(&batch), Ok(LARGEST_BATCH));
        assert_eq!(sender.send_batch(&batch[LARGEST_BATCH..]), Ok(36));
        assert_eq!(sender.send_batch(&[]), Ok(0));
        let first: Vec<u8> = pair.receive(66).concat();
        assert_eq!(first, (0..100).filter(|n| n % 3 != 0).collect::<Vec<_>>());
        pair.receiver = other;
        assert_eq!(pair.receive(34).concat(), (0..100).step_by(3).collect::<Vec<_>>());
    });
}

#[test]
fn payload_goes_from_place_to_room_and_what_is_too_long_is_cut() {
    for_each_family(|pair, _| {
        pair.send(&[1; 10]);
        pair.send(&[]);
        pair.send(&[2; 30]);
        let (mut a, mut b, mut c) = ([0; 20], [0; 20], [0; 20]);
        let mut arrivals = [Arrival::default(); 3];
        let mut rooms = [Room::of(&mut a), Room::of(&mut b), Room::of(&mut c)];
        let mut got = 0;
        assert!(eventually(|| {
            let more = pair.receiver.receive_into(&mut rooms[got..], &mut arrivals[got..]);
            got += more.expect("received");
            got == 3
        }));
        let seen = arrivals.map(|arrival| (arrival.bytes, arrival.cut));
        assert_eq!(seen, [(10, false), (0, false), (20, true)]);
        let from = pair.sender.local_address().expect("connected");
        assert!(arrivals.iter().all(|arrival| arrival.from == Some(from)));
        assert_eq!((a[..10] == [1; 10], c), (true, [2; 20]));
    });
}
